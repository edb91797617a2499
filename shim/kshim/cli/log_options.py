"""The command line of the commands that read logs: `dump-offsets` and `import`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from kshim.cli.addresses import Address, parse_address
from kshim.cli.exit_codes import EXIT_USAGE, CommandError


class DumpOffsetsOptions(NamedTuple):
    """What `kshim dump-offsets` was asked for: directories or a broker, never both."""

    data_dirs: tuple[str, ...]
    bootstrap_server: Address | None
    group: str | None
    partition: int | None
    from_offset: int
    to_offset: int | None
    output: Literal["text", "json"]


class ImportOptions(NamedTuple):
    """What `kshim import` was asked for: directories or a broker, never both. `topics` besides the offsets topic."""

    from_dirs: tuple[str, ...]
    bootstrap_server: Address | None
    data_dir: str
    topics: tuple[str, ...]


def parse_log_command(
    parser_class: type[argparse.ArgumentParser], arguments: Sequence[str]
) -> DumpOffsetsOptions | ImportOptions:
    """Read the arguments of either command, whose name comes first. Raises CommandError (usage)."""
    command, *rest = arguments
    if command == "import":
        return _import_options(_import_parser(parser_class).parse_args(rest))
    return _dump_offsets_options(_dump_offsets_parser(parser_class).parse_args(rest))


def _dump_offsets_parser(parser_class: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    dump = parser_class(
        prog="kshim dump-offsets",
        description="Print the records of __consumer_offsets, decoded, partition by partition: from a data directory "
        "(of kshim, or one of Kafka's log.dirs; nothing is locked or written) or from a running broker.",
        epilog="Exit codes: 0 all records were decoded, 1 one could not be decoded, 2 usage, 3 there is nothing to read.",
        allow_abbrev=False,
    )
    option = dump.add_argument
    source = dump.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--data-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="read from this directory; may be repeated, for brokers with several log.dirs",
    )
    source.add_argument("--bootstrap-server", metavar="HOST:PORT", help="read from this broker")
    option("--group", metavar="GROUP", help="print only the records of this group")
    option("--partition", metavar="N", help="print only this partition")
    option("--from-offset", metavar="N", default="0", help="print only records from this offset on, in each partition")
    option("--to-offset", metavar="N", help="print only records before this offset, in each partition")
    option(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or one JSON object per record (default: text)",
    )
    return dump


def _import_parser(parser_class: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = parser_class(
        prog="kshim import",
        description="Copy __consumer_offsets, byte for byte, into a new directory for `kshim serve --data-dir`, from a "
        "running broker or from the directories of a stopped one.",
        epilog="Exit codes: 0 imported, 1 the source cannot be read or is damaged, 2 usage, 3 the directory is not "
        "empty or cannot be written.",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bootstrap-server", metavar="HOST:PORT", help="read from this broker")
    source.add_argument(
        "--from-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="read from one of the log.dirs of a stopped broker; may be repeated",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", required=True, help="the directory to create; must be empty or not exist"
    )
    parser.add_argument(
        "--topic",
        metavar="NAME",
        action="append",
        default=[],
        help="also copy this topic; may be repeated",
    )
    return parser


def _import_options(found: argparse.Namespace) -> ImportOptions:
    return ImportOptions(
        from_dirs=tuple(found.from_dir),
        bootstrap_server=_address(found.bootstrap_server),
        data_dir=found.data_dir,
        topics=tuple(dict.fromkeys(found.topic)),
    )


def _dump_offsets_options(found: argparse.Namespace) -> DumpOffsetsOptions:
    return DumpOffsetsOptions(
        data_dirs=tuple(found.data_dir),
        bootstrap_server=_address(found.bootstrap_server),
        group=found.group,
        partition=None if found.partition is None else _number("--partition", found.partition),
        from_offset=_number("--from-offset", found.from_offset),
        to_offset=None if found.to_offset is None else _number("--to-offset", found.to_offset),
        output=cast("Literal['text', 'json']", found.output),
    )


def _address(text: str | None) -> Address | None:
    if text is None:
        return None
    try:
        return parse_address(text)
    except ValueError as error:
        raise CommandError(f"--bootstrap-server: {error}", EXIT_USAGE) from None


def _number(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise CommandError(f"{option}: {text!r} is not a number of at least 0", EXIT_USAGE)
    return int(text)
