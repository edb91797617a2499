"""What requests have cost from day to day, as a chart.

    python -m bench.chart [COMMIT ...]

Counts the key measures of commits that are not in `docs/requests.csv` yet, adds them, and draws `docs/img/requests.svg`: one
line a measure, its machine instructions as a share of those of the first day. What a commit could not be measured by is
left out, with the reason on stderr. The packages of `kshim[pipeline]` draw it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from csv import DictReader, DictWriter
from pathlib import Path
from typing import Any, Final

from bench.compare import KEY_MEASURES, ROOT, thousands, unpack

TABLE: Final = ROOT / "docs" / "requests.csv"
CHART: Final = ROOT / "docs" / "img" / "requests.svg"
COLUMNS: Final = ("day", "commit", "measure", "thousand_instructions")


def rows() -> list[dict[str, str]]:
    """Those of the table, in the order of time."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="") as table:
        return list(DictReader(table))


def measured(commit: str) -> list[dict[str, str]]:
    """The rows of a commit."""
    day, short = _git("log", "-1", "--format=%cs %h", commit).split()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        unpack(commit, Path(folder))
        for measure in KEY_MEASURES:
            try:
                cost = f"{thousands(Path(folder), measure):.1f}"
            except ValueError as error:
                print(f"{short} {measure}: {error}", file=sys.stderr)
                continue
            found.append(dict(zip(COLUMNS, (day, short, measure, cost), strict=True)))
    return found


def write(table: list[dict[str, str]]) -> None:
    """Replace the table."""
    with TABLE.open("w", newline="") as file:
        writer = DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(table, key=lambda row: (row["day"], KEY_MEASURES.index(row["measure"]))))


def draw(table: list[dict[str, str]]) -> None:
    """The chart of a table."""
    import altair as alt
    import vl_convert

    first: dict[str, float] = {}
    values: list[dict[str, Any]] = []
    for row in sorted(table, key=lambda row: row["day"]):
        cost = float(row["thousand_instructions"])
        share = 100 * cost / first.setdefault(row["measure"], cost)
        values.append({"day": row["day"], "measure": row["measure"], "share": share})
    lines = (
        alt.Chart({"values": values}, width=560, height=360)
        .mark_line(point=True)
        .encode(
            x=alt.X("day:O", title=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="instructions a request, % of the first day", scale=alt.Scale(type="log")),
            color=alt.Color("measure:N", title=None, sort=list(KEY_MEASURES), scale=alt.Scale(scheme="tableau20")),
        )
    )
    CHART.write_text(vl_convert.vegalite_to_svg(lines.to_json()) + "\n")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="to be added, as git names them")
    options = parser.parse_args()
    table = rows()
    for commit in options.commits:
        if _git("rev-parse", "--short", commit) not in {row["commit"] for row in table}:
            table += measured(commit)
            write(table)
    draw(table)


if __name__ == "__main__":
    main()
