"""Logs in a data directory: Kafka's `log.dirs` or kshim's `--data-dir`. Nothing is locked, nothing is written.

The broker may be running: what it appends meanwhile may be seen or not, and segments that it replaces are looked for
again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from kshim.tools.logs import NoTopic, SourceError
from kshim_protocol.records.scan import Batch, Damage, batches_in_file

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
        self._kshims: dict[str, dict[str, Any]] = {}
        self._name = ", ".join(directories)
        self._directories = directories
        for directory in directories:
            self._kshims.update(_kshims_topics(directory))
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

    def has(self, topic: str) -> bool:
        """Whether there is any partition of a topic."""
        return topic in self._folders or topic in self._kshims

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic, in order. Raises NoTopic when there are none.

        Kafka's are those that have a folder; kshim makes folders only when there is something to write.
        """
        found = {*self._folders.get(topic, {}), *range(self._kshims.get(topic, {}).get("partitions", 0))}
        if not found:
            raise NoTopic(f"{self._name} has no partition of {topic}")
        return sorted(found)

    def topic_id(self, topic: str) -> str | None:
        """What kshim's `topics.json` or Kafka's `partition.metadata` say: 22 characters of base64, or None."""
        if topic in self._kshims:
            found: str = self._kshims[topic]["topic_id"]
            return found
        for folder in self._folders.get(topic, {}).values():
            match = _search(os.path.join(folder, "partition.metadata"), r"^topic_id: ?(\S{22})$")
            if match is not None:
                return match
        return None

    def configs(self, topic: str) -> dict[str, str] | None:
        """What was set for a topic itself, where kshim wrote it; Kafka's folders do not say, hence None."""
        return dict(self._kshims[topic]["configs"]) if topic in self._kshims else None

    def cluster_id(self) -> str | None:
        """What `meta.properties` says."""
        found = (_search(os.path.join(path, "meta.properties"), r"^cluster\.id=(\S+)$") for path in self._directories)
        return next((cluster_id for cluster_id in found if cluster_id), None)

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

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """(start, end) of a log. Raises SourceError."""
        folder = self._folders.get(topic, {}).get(partition)
        segments = [] if folder is None else self._segments(folder)
        if not segments:
            return 0, 0
        begin, last = segments[0][0], segments[-1][0]
        ends = [found.header.last_offset + 1 for found in self.read(topic, partition, last) if isinstance(found, Batch)]
        return begin, max(ends, default=last)

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The ends of logs. Raises SourceError."""
        return {each: self.offsets(*each)[1] for each in partitions}

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
        raise SourceError(f"the files in {folder} change too quickly to be read")

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


def _kshims_topics(directory: str) -> dict[str, dict[str, Any]]:
    """The rows of kshim's `topics.json` by topic; nothing where there is none."""
    try:
        with open(os.path.join(directory, "topics.json"), encoding="utf-8") as file:
            rows = json.load(file)["topics"]
        return {
            row["name"]: {"partitions": int(row["partitions"]), "topic_id": row["topic_id"], "configs": row["configs"]}
            for row in rows
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"cannot read {directory}/topics.json: {error!r}") from None


def _search(path: str, pattern: str) -> str | None:
    """The first group of the first line that matches; None without one, or without the file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        with open(path, encoding="utf-8") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
        if match is not None:
            return match[1]
    return None
