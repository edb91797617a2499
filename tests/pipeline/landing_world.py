"""A cluster in memory, and what copies its records to files, in place of Spark: a line of a file is a record."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.inputs.kafka import Cluster, Identity, Span
from kshim_pipeline.land.batches import Batches, Landed, LandedFile, Offsets
from kshim_pipeline.land.checks import Seen
from kshim_pipeline.land.steps import CopyFailed, Landing

PARTITIONS = 2
DAY = "2026-11-23"


class Killed(BaseException):
    """The process ends here."""


class Kill:
    """Kills at one of the moments at which a file is written; `moments`: how many there were."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.moments = 0

    def moment(self) -> None:
        self.moments += 1
        if self.at == self.moments:
            raise Killed


class Disk(LocalFolder):
    """A directory whose user may be killed while it writes."""

    def __init__(self, path: Path, kill: Kill) -> None:
        super().__init__(path)
        self._kill = kill

    def write_new(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        aside.write_text(text[: len(text) // 2])
        self._kill.moment()
        aside.unlink()
        super().write_new(name, text)
        self._kill.moment()

    def delete(self, name: str) -> None:
        self._kill.moment()
        super().delete(name)


class Topic:
    """`records`: what each partition holds, by offset; those from `starts` up to `ends` are not deleted."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.records: list[dict[int, str]] = [{} for _ in range(PARTITIONS)]
        self.starts = [0] * PARTITIONS
        self.ends = [0] * PARTITIONS

    def append(self, count: int) -> None:
        for at in range(PARTITIONS):
            for offset in range(self.ends[at], self.ends[at] + count):
                self.records[at][offset] = f"{self.id} {offset}"
            self.ends[at] += count

    def delete_before(self, offset: int) -> None:
        """As retention does."""
        for at in range(PARTITIONS):
            self.starts[at] = max(self.starts[at], min(offset, self.ends[at]))
            self.records[at] = {each: text for each, text in self.records[at].items() if each >= self.starts[at]}

    def compact(self, keeping: Callable[[int], bool]) -> None:
        for at in range(PARTITIONS):
            self.records[at] = {offset: text for offset, text in self.records[at].items() if keeping(offset)}

    def truncate(self, offset: int) -> None:
        """As a broker that lost the end of its log."""
        for at in range(PARTITIONS):
            self.ends[at] = min(offset, self.ends[at])
            self.records[at] = {each: text for each, text in self.records[at].items() if each < offset}


class World:
    """A cluster with topics. `while_copying` is called once, in the middle of the next copy."""

    def __init__(self, *topics: str, cluster_id: str | None = "east") -> None:
        self.cluster_id = cluster_id
        self.topics = {name: Topic() for name in topics}
        self.while_copying: Callable[[], object] = lambda: None

    def recreate(self, name: str, count: int) -> None:
        self.topics[name] = Topic()
        self.topics[name].append(count)

    def places(self, *topics: str) -> Counter[tuple[str, int, int, str]]:
        """Each record that it has."""
        return Counter(
            (name, at, offset, text)
            for name, topic in self.topics.items()
            if not topics or name in topics
            for at, records in enumerate(topic.records)
            for offset, text in records.items()
        )


class Run:
    """A process that lands, as `kshim pipeline land` does. `said`: its sentences."""

    def __init__(
        self, world: World, path: Path, *topics: str, kill: Kill | None = None, name: str | None = None
    ) -> None:
        self.kill = Kill() if kill is None else kill
        self.disk = Disk(path, self.kill)
        self.said: list[str] = []
        self._world = world
        self._topics = topics or tuple(world.topics)
        landing = Landing(Batches(self.disk), self, Cluster("east:9092", name=name), self.said.append)
        self._landing, self.take_up, self.step = landing, landing.take_up, landing.step

    def land(self, *, compacting_at_ms: int | None = None) -> Landed:
        """Land all that is new, and put files together then; what is landed at last."""
        self.take_up()
        while self.step() is not None:
            pass
        if compacting_at_ms is not None:
            self._landing.compact(compacting_at_ms)
        return self._landing.landed

    def look(self) -> Seen:
        """As `Copying`."""
        there = {name: self._world.topics[name] for name in self._topics if name in self._world.topics}
        spans = {
            name: {at: Span(topic.starts[at], topic.ends[at]) for at in range(PARTITIONS)}
            for name, topic in there.items()
        }
        return Seen(Identity(self._world.cluster_id, {name: topic.id for name, topic in there.items()}), spans)

    def copy(self, attempt: str, begin: Offsets, end: Offsets, source: str) -> int:
        """As `Copying`: a file a topic, of which a kill leaves half."""
        count = 0
        for name, partitions in end.items():
            lines = []
            for at, last in partitions.items():
                topic, first = self._world.topics[name], begin[name][at]
                if first < topic.starts[at] or last > topic.ends[at]:
                    raise CopyFailed(f"{name}-{at} has no longer all offsets")
                lines += [
                    json.dumps([name, at, offset, text])
                    for offset, text in topic.records[at].items()
                    if first <= offset < last
                ]
                happening, self._world.while_copying = self._world.while_copying, lambda: None
                happening()
            if lines:
                self._write(attempt, name, DAY, lines)
            count += len(lines)
        self._succeed(attempt)
        return count

    def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
        """As `Copying`: a kill leaves half."""
        lines = [line for file in files for line in self.disk.read_text(file.path).splitlines()]
        self._write(attempt, files[0].topic, files[0].day, lines)
        self._succeed(attempt)

    def _write(self, attempt: str, topic: str, day: str, lines: list[str]) -> None:
        path = self.disk.path / attempt / f"topic={topic}" / f"day={day}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(lines[: len(lines) // 2]))
        self.kill.moment()
        path.write_text("\n".join(lines))
        self.kill.moment()

    def _succeed(self, attempt: str) -> None:
        (self.disk.path / attempt / "_SUCCESS").touch()
        self.kill.moment()

    def files(self, attempt: str) -> tuple[LandedFile, ...]:
        """As `Copying`."""
        paths = self.disk.find(f"{attempt}/topic=*/day=*/*.parquet")
        return tuple(
            LandedFile(path, path.split("/")[2].partition("=")[2], DAY, len(self.disk.read_text(path).splitlines()))
            for path in paths
        )


def records_in(path: Path) -> Counter[tuple[str, int, int, str]]:
    """Each record that is landed, as a report reads them. Raises PipelineError."""
    folder = LocalFolder(path)
    landed = Batches(folder).landed()
    return Counter(
        (name, at, offset, text)
        for file in landed.files
        for name, at, offset, text in map(json.loads, folder.read_text(file).splitlines())
    )
