"""What was read and sampled of a cluster, in one file, so that the same answer can be had from it later.

It is a zip file, version 1: folders of partitions with segments as Kafka names them, as far as they were read; the lines of the broker's log
that say something; samples; and `about.json`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from typing import IO, Any

from kshim.explain.facts import Member
from kshim.explain.sources.samples import Looks, Presence, Sample
from kshim.tools.logs import NoTopic, SourceError
from kshim.tools.why.logs import LogLine, Logs
from kshim_protocol.records.scan import Batch, Damage, batches_in_file

VERSION = 1
_ABOUT, _LINES = "about.json", "broker-log.jsonl"
_SAMPLES = "samples/"
_LOOKED = "looked_ms"
"""When a look began, in a row before its samples."""


class ArchiveWriter:
    """Writes a new file while `logs`, of which one partition is read at a time, are read through it. Raises SourceError: the file is there, or cannot be written."""

    def __init__(self, path: str, logs: Logs, group: str | None) -> None:
        self._logs = logs
        self._group = group
        self._partitions: dict[str, list[int]] = {}
        self._offsets: dict[str, tuple[int, int]] = {}
        self._damaged: dict[str, str] = {}
        self._sample_count = 0
        try:
            self._zip = zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=1)
        except OSError as error:
            raise SourceError(f"cannot write {path}: {error.strerror or error}") from None

    def partitions(self, topic: str) -> list[int]:
        """As `logs` say."""
        found = self._partitions[topic] = self._logs.partitions(topic)
        return found

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """As `logs` say; the first is that of the first time."""
        begin, end = self._logs.offsets(topic, partition)
        name = f"{topic}-{partition}"
        self._offsets[name] = (self._offsets.get(name, (begin, end))[0], end)
        return begin, end

    def ends(self, partitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """As `logs` say."""
        return self._logs.ends(partitions)

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """As `logs` say; what was taken of it is in the file."""
        name = f"{topic}-{partition}"
        segment: IO[bytes] | None = None
        try:
            for piece in self._logs.read(topic, partition, start):
                if isinstance(piece, Damage):
                    if not piece.is_tail:
                        self._damaged[name] = piece.reason
                else:
                    first, last = piece.header.base_offset, piece.header.last_offset
                    if segment is None:
                        segment = self._zip.open(f"{name}/{first:020}.log", "w", force_zip64=True)
                    segment.write(piece.data)
                    begin, end = self._offsets.get(name, (first, 0))
                    self._offsets[name] = (begin, max(end, last + 1))
                yield piece
        finally:
            if segment is not None:
                segment.close()

    def samples(self, looked_ms: int, found: Iterable[Sample]) -> None:
        """Add samples of one look."""
        rows = [{_LOOKED: looked_ms}, *(each._asdict() | _members(each) for each in found)]
        self._zip.writestr(f"{_SAMPLES}{self._sample_count:010}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        self._sample_count += 1

    def close(self, until_ms: int, lines: Iterable[LogLine] = ()) -> None:
        """Write the end. `until_ms`: until when the cluster was watched, 0 of files."""
        about = {
            "version": VERSION,
            "group": self._group,
            "until_ms": until_ms,
            "partitions": self._partitions,
            "offsets": self._offsets,
            "damaged": self._damaged,
        }
        self._zip.writestr(_LINES, "".join(json.dumps(each) + "\n" for each in lines))
        self._zip.writestr(_ABOUT, json.dumps(about, indent=1) + "\n")
        self._zip.close()


class Archive:
    """A file that `ArchiveWriter` wrote, as logs and what else is in it. Raises SourceError: it is none, or of another group than `group`."""

    def __init__(self, path: str, group: str | None) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
            about = json.loads(self._zip.read(_ABOUT))
            version, of_group = about["version"], about["group"]
            self._partitions: dict[str, list[int]] = about["partitions"]
            self._offsets = {name: (begin, end) for name, (begin, end) in about["offsets"].items()}
            self._damaged: dict[str, str] = about["damaged"]
            self.until_ms: int = about["until_ms"]
            """Until when the cluster was watched; 0: it was read from files."""
        except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
            raise SourceError(f"{path} is no file that --record wrote: {error}") from None
        if version != VERSION:
            raise SourceError(f"{path} has version {version}, which this kshim does not know")
        if of_group not in (None, group):
            raise SourceError(f"{path} is of the group {of_group}, and says nothing of others")

    def __str__(self) -> str:
        return self._path

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def partitions(self, topic: str) -> list[int]:
        """All that there were. Raises NoTopic."""
        if topic not in self._partitions:
            raise NoTopic(f"{self._path} has no partition of {topic}")
        return self._partitions[topic]

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Those that the log had."""
        return self._offsets.get(f"{topic}-{partition}", (0, 0))

    def ends(self, partitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Those that the logs had."""
        return {each: self.offsets(*each)[1] for each in partitions}

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[Batch | Damage]:
        """What was read of it that reaches `start` or beyond."""
        folder = f"{topic}-{partition}"
        for name in sorted(each for each in self._zip.namelist() if each.startswith(f"{folder}/")):
            data = self._zip.read(name)
            for found in batches_in_file(BytesIO(data), f"{self._path}, {name}", len(data)):
                if isinstance(found, Damage) or found.header.last_offset >= start:
                    yield found
        if folder in self._damaged:
            yield Damage(folder, 0, self._damaged[folder])

    def lines(self) -> list[LogLine]:
        """Those of the broker's log that said something."""
        return [LogLine(number, text) for number, text in self._rows(_LINES)]

    def presence(self) -> dict[str, Presence]:
        """What the samples of each group show."""
        found: dict[str, Presence] = {}
        looks = Looks()
        for name in sorted(each for each in self._zip.namelist() if each.startswith(_SAMPLES)):
            rows = list(self._rows(name))
            for row in (row for row in rows if _LOOKED not in row):
                members = {key: row[key] and tuple(Member(*each) for each in row[key]) for key in ("members", "behind")}
                found.setdefault(row["group"], Presence(looks)).add(Sample(**row | members))
            if rows:
                looks.add(min(row.get(_LOOKED, row.get("ts_ms")) for row in rows))
        return found

    def _rows(self, name: str) -> Iterator[Any]:
        return map(json.loads, self._zip.read(name).splitlines())


def _members(sample: Sample) -> dict[str, object]:
    """Its members as arrays."""
    return {"members": None if sample.members is None else list(sample.members), "behind": list(sample.behind)}
