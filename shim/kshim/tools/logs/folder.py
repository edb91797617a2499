"""Logs in a data directory: Kafka's `log.dirs` or kshim's `--data-dir`. Nothing is locked, nothing is written.

The broker may be running: what it appends meanwhile may be seen or not, and segments that it replaces are looked for
again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from kshim.tools.logs.batches import Batch, Damage, SourceError, batches_in_file

__all__ = ["FolderLogs"]

_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
_OPEN_TRIES = 5
_BUFFER_BYTES = 1 << 18


class _Segment(NamedTuple):
    base_offset: int
    path: str
    file: BinaryIO
    size_bytes: int


class FolderLogs:
    """The partitions below one or more directories. Raises SourceError when a directory cannot be listed."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._folders: dict[str, dict[int, str]] = {}
        self._partition_counts: dict[str, int] = {}
        self._name = ", ".join(directories)
        for directory in directories:
            self._partition_counts.update(_kshims_topics(directory))
            try:
                entries = sorted(os.listdir(directory))
            except OSError as error:
                raise SourceError(f"cannot list {directory}: {error.strerror or error}") from None
            for entry in entries:
                match = _FOLDER.fullmatch(entry)
                path = os.path.join(directory, entry)
                if match is not None and os.path.isdir(path):
                    self._folders.setdefault(match[1], {})[int(match[2])] = path

    def __str__(self) -> str:
        return self._name

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, in order. Raises SourceError when there are none.

        Kafka's are those that have a folder; kshim makes folders only when there is something to write.
        """
        found = {*self._folders.get(topic, {}), *range(self._partition_counts.get(topic, 0))}
        if not found:
            raise SourceError(f"{self._name} holds no partition of {topic}")
        return sorted(found)

    def topic_id(self, topic: str) -> str | None:
        """What Kafka's `partition.metadata` says: 22 characters of base64. None when it says nothing."""
        for folder in self._folders.get(topic, {}).values():
            with contextlib.suppress(OSError, UnicodeDecodeError):
                with open(os.path.join(folder, "partition.metadata"), encoding="ascii") as file:
                    match = re.search(r"^topic_id: ?(\S{22})$", file.read(), re.MULTILINE)
                if match is not None:
                    return match[1]
        return None

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """All of a partition's log that reaches `start` or beyond, in offset order. Raises SourceError."""
        folder = self._folders.get(topic, {}).get(partition)
        if folder is None:
            return
        last_offset = -1
        with contextlib.ExitStack() as files:
            segments = self._open(folder, start, files)
            for position, segment in enumerate(segments):
                try:
                    for found in batches_in_file(segment.file, segment.path, segment.size_bytes):
                        if isinstance(found, Damage):
                            is_last = position == len(segments) - 1
                            yield found._replace(is_tail=found.is_tail and is_last)
                        elif found.header.base_offset <= last_offset:
                            reason = f"offset {found.header.base_offset} does not come after {last_offset}"
                            yield Damage(found.place, len(found.data), reason, is_tail=False)
                        else:
                            last_offset = found.header.last_offset
                            if last_offset >= start:
                                yield found
                except OSError as error:
                    raise SourceError(f"cannot read {segment.path}: {error.strerror or error}") from None

    def end_offset(self, topic: str, partition: int) -> int:
        """Where the last segment of a log begins: its end, if it holds nothing. Raises SourceError."""
        folder = self._folders.get(topic, {}).get(partition)
        return 0 if folder is None else max((offset for offset, _ in self._segments(folder)), default=0)

    def _open(self, folder: str, start: int, files: contextlib.ExitStack) -> list[_Segment]:
        """Open all that is needed before anything is read, so that a cleaner's replacements are seen whole or not."""
        for _ in range(_OPEN_TRIES):
            names = self._segments(folder)
            needed = [
                (base, path)
                for place, (base, path) in enumerate(names)
                if place == len(names) - 1 or names[place + 1][0] > start
            ]
            try:
                return [_open_segment(base, path, files) for base, path in needed]
            except FileNotFoundError:
                continue  # removed since it was listed
            except OSError as error:
                raise SourceError(f"cannot open {error.filename}: {error.strerror or error}") from None
        raise SourceError(f"the files in {folder} change too fast to be read")

    @staticmethod
    def _segments(folder: str) -> list[tuple[int, str]]:
        try:
            names = os.listdir(folder)
        except OSError as error:
            raise SourceError(f"cannot list {folder}: {error.strerror or error}") from None
        matches = [_SEGMENT.fullmatch(name) for name in names]
        return sorted((int(match[1]), os.path.join(folder, match[0])) for match in matches if match is not None)


def _open_segment(base_offset: int, path: str, files: contextlib.ExitStack) -> _Segment:
    file = open(path, "rb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed with all others
    files.callback(file.close)
    return _Segment(base_offset, path, file, os.fstat(file.fileno()).st_size)


def _kshims_topics(directory: str) -> dict[str, int]:
    """Topics and how many partitions they have, by kshim's `topics.json`; nothing where there is none."""
    try:
        with open(os.path.join(directory, "topics.json"), encoding="utf-8") as file:
            return {row["name"]: int(row["partitions"]) for row in json.load(file)["topics"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"cannot read {directory}/topics.json: {error}") from None
