"""The table of APIs and versions for people: `python -m kshim.tools.api_table [--check FILE | --write FILE]`.

Without options it is printed as Markdown. FILE holds it between two marker lines: `--write` replaces it there,
`--check` exits 1 when it is not what the registry says.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kshim.tools.kafka_apis import KAFKA_APIS
from kshim_protocol.apis import API_TABLE, Api

BEGIN = "<!-- apis:begin -->"
END = "<!-- apis:end -->"

_NOTES = {
    "AddPartitionsToTxn": "4 and 5 are for brokers",
    "ListTransactions": "patterns need `kshim[regex]`",
    "Produce": "listed from 0, as Kafka does for old clients",
    "InitProducerId": "no two-phase commit (KIP-939)",
    "DescribeLogDirs": "one directory",
    "AlterReplicaLogDirs": "one directory, so nothing moves",
    "AlterClientQuotas": "kept and described; nothing throttles",
    "DescribeQuorum": "the nodes are the voters",
    "AlterPartitionReassignments": "one replica: the node that shall lead",
    "ListPartitionReassignments": "none is ever under way",
}


def api_table(apis: Mapping[int, Api] = API_TABLE) -> str:
    """One row an API, by key: name, key, versions here and in Kafka, first flexible version, what is special."""
    rows = [("API", "Key", "kshim", "Kafka 4.4", "Flexible from", "Notes")]
    rows.extend(_row(api) for _, api in sorted(apis.items()))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    # Numbers are aligned to the right.
    rule = [f"{'-' * (width - 1)}:" if column in (1, 2, 3, 4) else "-" * width for column, width in enumerate(widths)]
    lines.insert(1, f"| {' | '.join(rule)} |")
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """`text` with the table between its markers. Raises ValueError when it has not both, once and in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"needs one line {BEGIN} and one line {END} after it")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{api_table()}{END}{tail}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, check or write the table; the exit code is 1 when `--check` finds another one."""
    parser = argparse.ArgumentParser(prog="python -m kshim.tools.api_table", description="The APIs that kshim speaks.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", metavar="FILE", type=Path, help="compare the table in FILE")
    choice.add_argument("--write", metavar="FILE", type=Path, help="replace the table in FILE")
    options = parser.parse_args(arguments)
    path: Path | None = options.check or options.write
    if path is None:
        sys.stdout.write(api_table())
        return 0
    text = path.read_text(encoding="utf-8")
    try:
        wanted = with_table(text)
    except ValueError as error:
        parser.error(f"{path}: {error}")
    if options.write is not None:
        path.write_text(wanted, encoding="utf-8")
        return 0
    if text != wanted:
        print(f"{path} lists other APIs than the registry: run python -m kshim.tools.api_table --write {path}")
        return 1
    return 0


def versions_text(first: int, last: int) -> str:
    """A range of versions.

    >>> versions_text(0, 9), versions_text(2, 2)
    ('0-9', '2')
    """
    return str(first) if first == last else f"{first}-{last}"


def _row(api: Api) -> tuple[str, str, str, str, str, str]:
    versions = versions_text(api.min_version, api.max_version)
    kafkas = versions_text(*KAFKA_APIS[api.key][1])
    flexible = "-" if api.flexible_from is None else str(api.flexible_from)
    return (api.name, str(api.key), versions, kafkas, flexible, _NOTES.get(api.name, ""))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if column in (1, 2, 3, 4) else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
