"""Landing: Structured Streaming from topics to files, with a checkpoint.

The directory contains `records/` (Parquet, partitioned by topic and day of the record, UTC) and `checkpoint/`. Spark
records which files belong to a finished micro-batch (`records/_spark_metadata`), so partial output of a killed run is
never read. Other tools should therefore not read `records/` by listing it.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from kshim_pipeline.decode import decode, decode_files
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.inputs.kafka import Cluster, Span, stream_topics
from kshim_pipeline.land.counts import OBSERVATION, Counts, observed
from kshim_pipeline.land.log_ends import LogEnds
from kshim_pipeline.progress import Progress
from kshim_pipeline.records import RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_DAY: Final = "day"
_POLL_S: Final = 0.5
_GLANCE_S: Final = 0.05
_OFFSETS_PER_BATCH: Final = 2_000_000
"""What a killed run does again at most."""

_Offsets = dict[str, dict[int, int]]


class Loss(NamedTuple):
    """Offsets of a partition that were deleted before they were landed: from `start`, before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: offsets {self.start} to {self.end - 1}"


def read_landed(spark: SparkSession, folder: str) -> DataFrame:
    """The records landed in `folder`, as RECORDS. Raises PipelineError: there are none."""
    schema = StructType([*RECORDS.fields, StructField(_DAY, DateType())])
    try:
        return spark.read.schema(schema).parquet(f"{folder}/records").select(*RECORDS.names)
    except AnalysisException as error:
        raise PipelineError(f"{folder} contains no landed records", EXIT_UNAVAILABLE) from error


def decode_landed(spark: SparkSession, folder: str) -> DataFrame:
    """The landed records of `__consumer_offsets`, as DECODED. Raises PipelineError: nothing was landed.

    Files on a local disk, read by local workers, are decoded without going through the JVM first.
    """
    records = read_landed(spark, folder)
    files = [file for file in records.inputFiles() if f"/topic={OFFSETS_TOPIC}/" in file]
    if str(spark.sparkContext.master).startswith("local") and all(file.startswith("file:") for file in files):
        return decode_files(spark, [url2pathname(urlsplit(file).path) for file in files])
    return decode(records)


def land(
    spark: SparkSession,
    cluster: Cluster,
    topics: Sequence[str],
    folder: str,
    *,
    every_s: float | None = None,
    counts: Counts | None = None,
    progress: Progress | None = None,
    ends: LogEnds | None = None,
) -> Counts:
    """Append new records of `topics` to `folder`; without `every_s`, up to the current end.

    With `every_s` it continues with a micro-batch at that interval until it is interrupted; `counts` then has what was
    landed. `ends` is asked for samples meanwhile. Raises PipelineError: the topics do not exist, end before what was
    landed, or the stream failed.
    """
    counts = Counts() if counts is None else counts
    progress = Progress() if progress is None else progress
    spans = cluster.spans(spark, topics)
    lost = losses(landed_offsets(spark, folder), spans, folder)
    if lost:
        print(
            f"Lost: {sum(loss.end - loss.start for loss in lost)} offsets were deleted before they could be landed "
            f"({'; '.join(map(str, lost))}). Land more often, or retain records longer (retention.ms, DeleteRecords)."
        )
    records = stream_topics(spark, cluster, topics, max_offsets_per_trigger=_OFFSETS_PER_BATCH)
    day = F.to_date(F.timestamp_millis("timestamp_ms"))
    # Else every partition of the topic makes a file in every micro-batch.
    few = observed(records).withColumn(_DAY, day).coalesce(spark.sparkContext.defaultParallelism)
    writer = few.writeStream.format("parquet").outputMode("append").partitionBy("topic", _DAY)
    writer = writer.option("path", f"{folder}/records").option("checkpointLocation", f"{folder}/checkpoint")
    if every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{every_s} seconds")
    starts = {topic: {at: span.start for at, span in partitions.items()} for topic, partitions in spans.items()}
    if ends is not None:
        ends.sample()
    _watch(writer.start(), counts, progress, starts, ends)
    return counts


def losses(landed: Mapping[str, Mapping[int, int]], spans: Mapping[str, Mapping[int, Span]], folder: str) -> list[Loss]:
    """The offsets between those `landed` (exclusive) and those that still exist.

    Raises PipelineError if a partition ends before what was landed: then it is another log.
    """
    found = []
    for topic, partitions in landed.items():
        for partition, offset in sorted(partitions.items()):
            span = spans.get(topic, {}).get(partition)
            if span is None:
                continue
            if span.end < offset:
                raise PipelineError(
                    f"{topic}-{partition} ends at offset {span.end}, but {folder} has records up to {offset}: this is "
                    "another cluster, or the broker lost its data. Land it in another directory"
                )
            if span.start > offset:
                found.append(Loss(topic, partition, offset, span.start))
    return found


def landed_offsets(spark: SparkSession, folder: str) -> _Offsets:
    """The offsets after the last finished micro-batch; empty before the first."""
    try:
        done = _checkpoint_files(spark, f"{folder}/checkpoint/commits")
        planned = _checkpoint_files(spark, f"{folder}/checkpoint/offsets")
    except AnalysisException:
        return {}
    finished = [batch for batch in done if batch in planned]
    if not finished:
        return {}
    # A version, what belongs to the batch, and then a line a source; there is one source.
    return _by_partition(json.loads(planned[max(finished)].splitlines()[2]))


def _checkpoint_files(spark: SparkSession, folder: str) -> dict[int, str]:
    rows = spark.read.text(folder, wholetext=True).select("value", F.col("_metadata.file_name").alias("name")).collect()
    return {int(row.name): row.value for row in rows if row.name.isdecimal()}


def _by_partition(found: Mapping[str, Mapping[str, int]]) -> _Offsets:
    return {topic: {int(at): offset for at, offset in partitions.items()} for topic, partitions in found.items()}


def _watch(query: StreamingQuery, counts: Counts, progress: Progress, starts: _Offsets, ends: LogEnds | None) -> None:
    """Follow the stream until it ends, and count records. Raises KeyboardInterrupt after it was interrupted and stopped."""
    try:
        with _Interrupts() as interrupts:
            while query.isActive and not interrupts.wait(_POLL_S):
                _count(query, counts, starts)
                doing = query.status["message"].partition(" from ")[0]  # all partitions by name would follow
                progress.say(f"{counts.records} records landed in {counts.batches} batches: {doing}")
                if ends is not None:
                    ends.sample()
            if query.isActive:
                query.stop()
            _count(query, counts, starts)
            query.awaitTermination()
    except StreamingQueryException as error:
        raise PipelineError(f"Landing failed: {_first_line(str(error))}") from error
    finally:
        progress.done()
    if interrupts.came:
        raise KeyboardInterrupt


class _Interrupts:
    """Defers SIGINT and SIGTERM: pyspark would call the JVM from inside the handler, on a socket in use."""

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> bool:
        """Whether a signal arrived, now or within some seconds."""
        end = time.monotonic() + seconds
        while not self.came and time.monotonic() < end:
            time.sleep(_GLANCE_S)
        return self.came

    def _note(self, *_: object) -> None:
        self.came = True


def _count(query: StreamingQuery, counts: Counts, starts: _Offsets) -> None:
    for done in query.recentProgress:
        metrics = done.observedMetrics.get(OBSERVATION)
        if metrics is not None and done.numInputRows:
            # `done.sources` has Python's text of the same.
            (source,) = json.loads(done.json)["sources"]
            counts.add(done.batchId, metrics.asDict(), _offsets_passed(source, starts))


def _offsets_passed(source: Mapping[str, Any], starts: _Offsets) -> int:
    """How many offsets a micro-batch covered; the first of a partition begins at the partition's start."""
    begin = _by_partition(source["startOffset"] or {})
    return sum(
        offset - begin.get(topic, {}).get(partition, starts.get(topic, {}).get(partition, 0))
        for topic, partitions in _by_partition(source["endOffset"]).items()
        for partition, offset in partitions.items()
    )


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), text)
