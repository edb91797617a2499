"""Up to where each log of a data directory is compacted, in Kafka's own file and format.

A log that is not in it, or behind the truth after a crash, is compacted once more than needed.
Kafka: OffsetCheckpointFile, `cleaner-offset-checkpoint`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from threading import Lock

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls

_FILE = "cleaner-offset-checkpoint"


class CleanerCheckpoint:
    """The file in `path`. Read when it is first asked for; one that is damaged counts as empty."""

    def __init__(self, path: str, calls: OsCalls) -> None:
        self._path = os.path.join(path, _FILE)
        self._calls = calls
        self._offsets: dict[tuple[str, int], int] | None = None
        self._has_news = False
        self._writing = Lock()
        self._made = 0
        self._written = 0

    def get(self, topic: str, partition: int) -> int:
        """The offset up to which a log is compacted; 0 when nothing is known."""
        return self._loaded().get((topic, partition), 0)

    def note(self, topic: str, partition: int, offset: int) -> None:
        """Remember an offset, in memory for now."""
        self._loaded()[topic, partition] = offset
        self._has_news = True

    def to_save(self) -> Callable[[], None] | None:
        """Writes the file: blocks, in any thread; raises LogError. None when there is no news."""
        return self._write(self._loaded()) if self._has_news else None

    def forget(self, topics: Collection[str]) -> None:
        """The topics are deleted; others of the same names must not inherit. Blocks. Raises LogError."""
        offsets = self._loaded()
        gone = [key for key in offsets if key[0] in topics]
        for key in gone:
            del offsets[key]
        if gone or self._has_news:
            self._write(offsets)()

    def _loaded(self) -> dict[tuple[str, int], int]:
        if self._offsets is None:
            try:
                with open(self._path, encoding="utf-8") as file:
                    version, _, *rows = file.read().splitlines()
                if version != "0":
                    raise ValueError(version)
                fields = [row.rsplit(" ", 2) for row in rows if row]
                self._offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in fields}
            except (OSError, ValueError):
                self._offsets = {}
        return self._offsets

    def _write(self, offsets: dict[tuple[str, int], int]) -> Callable[[], None]:
        rows = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
        text = "".join(("0\n", f"{len(rows)}\n", *rows))
        self._has_news = False
        self._made += 1
        number = self._made

        def write() -> None:
            # A deletion writes while another thread may be saving what was known before it.
            with self._writing:
                if number < self._written:
                    return
                try:
                    self._calls.write_whole_file(self._path, text.encode())
                except OSError as error:
                    self._has_news = True
                    raise LogError(f"cannot write {self._path}: {error.strerror or error}") from error
                self._written = number

        return write
