"""Landing what is missing, after files of a directory were lost: all that is there, compared with the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import folder_at
from kshim_pipeline.inputs.kafka import Cluster, Identity, read_ranges
from kshim_pipeline.java_errors import told
from kshim_pipeline.land.batches import RECOVERY, Batch, Batches, Landed, extended, furthest
from kshim_pipeline.land.checks import Loss, losses, require_same
from kshim_pipeline.land.writing import landed_files, read_files, readable_records, write
from kshim_pipeline.records import DECODER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE: Final = ["topic", "partition", "offset"]
_GONE: Final = "(deleted)"
"""Instead of the id of a topic that the cluster does not have: another topic of its name is another one."""


class Recovered(NamedTuple):
    """Records: `there` were landed before, `taken` are of files that no batch named, `read` were read from the cluster.

    `compared`: those that the cluster still has, all of which are landed now. `lost`: offsets that were not landed, and
    are deleted. `gone`: records that were landed, and are neither in a file nor on the cluster. `unread`: files that are
    gone or damaged.
    """

    there: int
    taken: int
    read: int
    compared: int
    lost: tuple[Loss, ...] = ()
    gone: int = 0
    unread: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """For the user."""
        said = [
            f"Recovered {self.taken + self.read} records, {self.taken} from files that no batch named and {self.read} from "
            f"the cluster; {self.there} were there. Compared: each of the {self.compared} records that the cluster still "
            "has is landed, and none twice."
        ]
        if self.lost:
            said.append(
                "Lost: the cluster does not have these offsets any more, and not all of their records are in the directory: "
                f"{'; '.join(map(str, self.lost))}."
            )
        if self.gone:
            said.append(
                f"Lost: {self.gone} records were landed in files that are gone, and the cluster has deleted them."
            )
        if self.unread:
            said.append(
                f"{len(self.unread)} files are gone or damaged, such as a killed run leaves: {self.unread[0]}"
                f"{', ...' if len(self.unread) > 1 else ''}."
            )
        return said


def recover(spark: SparkSession, cluster: Cluster, topics: Sequence[str], folder: str) -> Recovered:
    """Land what `folder` lacks of `topics`, and of other topics that it has; a directory that lacks nothing is not changed.

    Raises PipelineError: it is of another cluster, or not all that the cluster has is there afterwards.
    """
    try:
        return _recover(spark, cluster, topics, folder)
    except (Py4JJavaError, PySparkException, OSError) as error:
        raise PipelineError(f"The recovery of {folder} failed: {told(error)}") from error


def _recover(spark: SparkSession, cluster: Cluster, topics: Sequence[str], folder: str) -> Recovered:
    batches = Batches(folder_at(spark, folder))
    named = batches.sound()
    identity = cluster.identity(spark, topics)
    loose_paths = batches.unnamed_files(named, lambda other: require_same(other, identity, cluster, folder))
    known = sorted({*topics, *named.end, *map(topic_of, loose_paths)})
    identity = cluster.identity(spark, known)
    require_same(named, identity, cluster, folder)
    spans = {**cluster.spans(spark, known), **cluster.spans_of_all(spark, topics)}
    deleted = losses(named.end, spans, folder)

    readable = readable_records(spark, folder, sorted({*batches.files()} & {*named.files, *loose_paths}))
    sound = with_readable(named, readable)
    there = read_files(spark, folder, sorted(sound.files))
    loose = read_files(spark, folder, sorted(readable.keys() - sound.files.keys())).persist()
    starts = {topic: {at: span.start for at, span in partitions.items()} for topic, partitions in spans.items()}
    ends = {topic: {at: span.end for at, span in partitions.items()} for topic, partitions in spans.items()}
    of_cluster = read_ranges(spark, cluster, starts, ends, source=cluster.name).persist()
    try:
        _require_one_history(there.unionByName(loose).unionByName(of_cluster), folder, cluster)
        loose_ends = _ends(loose)
        losses(loose_ends, spans, folder)
        taken = loose.dropDuplicates(_PLACE).join(there.select(*_PLACE), _PLACE, "left_anti")
        read = of_cluster.join(there.unionByName(taken).select(*_PLACE), _PLACE, "left_anti")
        source = loose.agg(F.max("source")).collect()[0][0]
        once_landed = [Loss(topic, at, 0, end) for topic, ends_ in named.end.items() for at, end in ends_.items()]
        recovered = Recovered(
            sum(file.records for file in sound.files.values()),
            taken.count(),
            read.count(),
            of_cluster.count(),
            not_covered(deleted, _counts(taken, deleted)),
            gone_records(named, sound, sum(_counts(taken.unionByName(read), once_landed).values())),
            tuple(sorted({*named.files, *loose_paths} - readable.keys())),
        )
        if sound.files == named.files and not (recovered.taken or recovered.read) and batches.is_whole():
            return recovered
        plan = Batch(
            named.number,
            True,
            identity.cluster_id or named.cluster_id,
            cluster.given_name or named.source or source or cluster.name,
            topic_ids_of(named, identity, known),
            named.end,
            extended(furthest(named.end, loose_ends), ends),
            (),
            DECODER,
        )
        attempt = batches.new_attempt(plan, RECOVERY)
        if recovered.taken or recovered.read:
            write(spark, taken.unionByName(read), f"{folder}/{attempt}")
        batch = plan.with_files(sound, landed_files(spark, folder, attempt))
        _require_all(read_files(spark, folder, [file.path for file in batch.files]), of_cluster, folder)
    finally:
        loose.unpersist()
        of_cluster.unpersist()
    require_same(named.followed_by(batch), cluster.identity(spark, known), cluster, folder)
    losses(ends, cluster.spans(spark, known), folder)
    batches.add(attempt, batch)
    return recovered


def topic_of(path: str) -> str:
    """The topic of a file of records.

    >>> topic_of("records/batch=3-aa/topic=orders/day=2026-11-23/part-0.parquet")
    'orders'
    """
    return path.partition("/topic=")[2].partition("/")[0]


def with_readable(named: Landed, readable: Mapping[str, int]) -> Landed:
    """`named` with those files that have as many records as their batch says; `readable`: how many are read from each."""
    return named._replace(
        files={path: file for path, file in named.files.items() if readable.get(path) == file.records}
    )


def gone_records(named: Landed, sound: Landed, found_again: int) -> int:
    """How many records of lost files were not `found_again`."""
    return max(sum(file.records for path, file in named.files.items() if path not in sound.files) - found_again, 0)


def not_covered(deleted: Sequence[Loss], found: Mapping[tuple[str, int], int]) -> tuple[Loss, ...]:
    """Of the offsets that are deleted on the cluster, those of partitions of which not as many records are `found`."""
    return tuple(loss for loss in deleted if found.get((loss.topic, loss.partition), 0) < loss.end - loss.start)


def topic_ids_of(named: Landed, identity: Identity, topics: Sequence[str]) -> dict[str, str]:
    """The ids of the topics of which there are records; of one that nobody knows the id of, an id that no topic has."""
    gone = {topic: _GONE for topic in topics if identity.topic_ids and topic not in identity.topic_ids}
    return {**gone, **named.topic_ids, **identity.topic_ids}


def _counts(records: DataFrame, ranges: Sequence[Loss]) -> dict[tuple[str, int], int]:
    """How many of the records there are in ranges of offsets, by topic and partition."""
    is_within = F.lit(False)
    for topic, partition, start, end in ranges:
        is_place = (F.col("topic") == topic) & (F.col("partition") == partition)
        is_within |= is_place & (F.col("offset") >= start) & (F.col("offset") < end)
    rows = records.where(is_within).groupBy("topic", "partition").count().collect()
    return {(row["topic"], row["partition"]): row["count"] for row in rows}


def _ends(records: DataFrame) -> dict[str, dict[int, int]]:
    ends: dict[str, dict[int, int]] = {}
    for row in records.groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect():
        ends.setdefault(row["topic"], {})[row["partition"]] = row["last"] + 1
    return ends


def _require_one_history(records: DataFrame, folder: str, cluster: Cluster) -> None:
    """Raises PipelineError: records of one place differ."""
    versions = F.count_distinct(F.struct("timestamp_ms", "key", "value"))
    row = records.groupBy(*_PLACE).agg(versions.alias("versions")).where("versions > 1").first()
    if row is not None:
        raise PipelineError(
            f"The record of {row['topic']}-{row['partition']} at offset {row['offset']} is not the same in {folder} and on "
            f"{cluster.bootstrap_servers}: the directory is of another cluster, or the topic was recreated. Land it in "
            "another directory",
            EXIT_UNAVAILABLE,
        )


def _require_all(landed: DataFrame, of_cluster: DataFrame, folder: str) -> None:
    """Raises PipelineError: a record of the cluster is not landed, or one is landed twice."""
    missing = of_cluster.join(landed.select(*_PLACE), _PLACE, "left_anti").count()
    twice = landed.groupBy(*_PLACE).count().where("count > 1").count()
    if missing or twice:
        raise PipelineError(
            f"After the recovery of {folder}, {missing} records of the cluster are missing and {twice} are there twice, so "
            "it was not completed; nothing was changed",
            EXIT_UNAVAILABLE,
        )
