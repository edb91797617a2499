"""What a change costs or saves: the same measures of two commits, in turns.

    python -m bench.compare A B [--rounds 2] [--measures heartbeat ...]        or: make bench-compare A=... B=...

`bench.instructions` of the working tree counts the machine instructions of each commit's `shim` and `protocol`, which are
unpacked beside it. A measure has changed where all rounds of one commit are on one side of all rounds of the other, and
the medians differ by 1 % at least: less is what the order of objects in memory makes. A measure that a commit does not
know, or on which it fails, is left out, with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Final

from bench.instructions import MEASURES

ROOT: Final = Path(__file__).resolve().parents[1]
KEY_MEASURES: Final = (
    "heartbeat",
    "commit-1",
    "commit-10",
    "commit-100",
    "offset-fetch-1",
    "offset-fetch-100",
    "produce-1",
    "produce-150",
    "fetch-1-mib",
    "metadata",
    "new-group",
    "join-100",
    "leave",
    "list-1000-groups",
)
LEAST_CHANGE: Final = 0.01


def unpack(commit: str, folder: Path) -> None:
    """The sources of a commit, with the measures of the working tree."""
    archive = subprocess.run(
        ["git", "archive", commit, "shim", "protocol"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as sources:
        sources.extractall(folder, filter="data")
    shutil.copytree(ROOT / "bench", folder / "bench")


def thousands(folder: Path, measure: str) -> float:
    """Thousand instructions a request. Raises ValueError with the last line of what went wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.instructions", "--measures", measure],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(folder / each) for each in ("shim", "protocol", "."))},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"([\d.]+) thousand instructions", done.stdout)
    if done.returncode or found is None:
        raise ValueError((done.stderr.strip() or done.stdout.strip() or "no result").splitlines()[-1])
    return float(found[1])


def verdict(before: list[float], after: list[float]) -> str:
    """The change of the medians in percent; in words where it is more than noise."""
    change = statistics.median(after) / statistics.median(before) - 1
    is_apart = max(after) < min(before) or min(after) > max(before)
    word = ("fewer" if change < 0 else "MORE") if is_apart and abs(change) >= LEAST_CHANGE else "same"
    return f"{change:+7.1%}  {word}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs=2, metavar=("A", "B"), help="before and after, as git names them")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=KEY_MEASURES, metavar="MEASURE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as unpacked:
        folders = [Path(unpacked, name) for name in ("before", "after")]
        for commit, folder in zip(options.commits, folders, strict=True):
            unpack(commit, folder)
        print(f"thousand instructions   {'before':>10}{'after':>10}   change")
        for measure in options.measures:
            rounds: tuple[list[float], list[float]] = ([], [])
            try:
                for _, (taken, folder) in product(range(options.rounds), zip(rounds, folders, strict=True)):
                    taken.append(thousands(folder, measure))
            except ValueError as error:
                print(f"{measure:<24}left out: {error}", flush=True)
                continue
            before, after = map(statistics.median, rounds)
            print(f"{measure:<24}{before:>10.1f}{after:>10.1f}  {verdict(*rounds)}", flush=True)


if __name__ == "__main__":
    main()
