"""What `kshim why` reads: logs of partitions, and lines of the broker's log."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from kshim.explain.sources.log_lines import parse_broker_line, parse_line, parse_setting
from kshim.tools.logs import SourceError
from kshim_protocol.records.scan import Batch, Damage


class Logs(Protocol):
    """Where logs are: folders, a broker, or what was recorded of them."""

    def partitions(self, topic: str) -> list[int]:
        """The partitions there are. Raises NoTopic when there are none, and SourceError."""
        ...

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset, and the one after the last. Raises SourceError."""
        ...

    def ends(self, partitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """The offsets after the last, as far as they can be had now. Raises SourceError."""
        ...

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """A partition's log from `start` on. Raises SourceError."""
        ...


class LogLine(NamedTuple):
    """A line of the broker's log, without its end, and its number in its file."""

    number: int
    text: str


def lines_of(paths: Sequence[str]) -> Iterator[LogLine]:
    """The lines of files, those that end with `.gz` unpacked. Raises SourceError."""
    for path in paths:
        opened = gzip.open if path.endswith(".gz") else open
        try:
            with opened(path, "rt", encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    yield LogLine(number, line.rstrip("\r\n"))
        except OSError as error:
            raise SourceError(f"cannot read {path}: {error.strerror or error}") from None


def rows_of(lines: Iterable[LogLine], zone: ZoneInfo) -> Iterator[dict[str, Any]]:
    """What those lines say that say something of groups and brokers: parsed, with `line` and `text`."""
    for number, text in lines:
        row = parse_line(text, zone) or parse_broker_line(text, zone) or parse_setting(text)
        if row is not None:
            yield row | {"line": number, "text": text}
