"""Landing with Spark: new records of topics into files, each exactly once, whatever happens to a run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Observation

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.folder import folder_at
from kshim_pipeline.inputs.kafka import Cluster, read_ranges
from kshim_pipeline.java_errors import told
from kshim_pipeline.land.batches import Batches, LandedFile, Offsets, offsets_in
from kshim_pipeline.land.checks import Seen
from kshim_pipeline.land.counts import Counts, observed
from kshim_pipeline.land.log_ends import LogEnds
from kshim_pipeline.land.steps import CopyFailed, Landing
from kshim_pipeline.land.writing import landed_files, rewrite, write
from kshim_pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GLANCE_S: Final = 0.05


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

    With `every_s` it continues with a batch at that interval until it is interrupted; `counts` then has what was landed.
    `ends` is asked for samples meanwhile. Raises PipelineError: the topics do not exist; the directory is of another
    cluster, of topics that were recreated since, or lacks something; reading or writing failed.
    """
    counts = Counts() if counts is None else counts
    progress = Progress() if progress is None else progress
    try:
        with Interrupts() as interrupts:
            copying = _SparkCopying(spark, cluster, topics, folder, counts)
            landing = Landing(Batches(folder_at(spark, folder)), copying, cluster)
            spans = landing.take_up().spans
            while not interrupts.came:
                began_s = time.monotonic()
                if ends is not None:
                    ends.sample()
                progress.say(f"{counts.records} records landed in {counts.batches} batches: reading")
                now = {topic: {at: span.end for at, span in partitions.items()} for topic, partitions in spans.items()}
                while not interrupts.wait(0) and landing.step(now) is not None:
                    progress.say(f"{counts.records} records landed in {counts.batches} batches: reading")
                if not interrupts.wait(0):
                    progress.say(f"{counts.records} records landed in {counts.batches} batches: putting files together")
                    counts.compacted += landing.compact(time.time_ns() // 1_000_000)
                if every_s is None or interrupts.wait(every_s - (time.monotonic() - began_s)):
                    break
                spans = copying.look().spans
    except OSError as error:
        raise PipelineError(f"Landing failed: {error}") from error
    except (Py4JJavaError, PySparkException) as error:
        raise PipelineError(f"Landing into {folder} failed: {told(error)}") from error
    finally:
        progress.done()
    if interrupts.came:
        raise KeyboardInterrupt
    return counts


class _SparkCopying:
    """As `Copying`. Counts what it copied by kind."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, topics: Sequence[str], folder: str, counts: Counts
    ) -> None:
        self._spark = spark
        self._cluster = cluster
        self._topics = topics
        self._folder = folder
        self._counts = counts

    def look(self) -> Seen:
        identity = self._cluster.identity(self._spark, self._topics)
        return Seen(identity, self._cluster.spans_of_all(self._spark, self._topics))

    def copy(self, attempt: str, begin: Offsets, end: Offsets, source: str) -> int:
        counting = Observation("landed")
        records = observed(read_ranges(self._spark, self._cluster, begin, end, source=source), counting)
        try:
            write(self._spark, records, f"{self._folder}/{attempt}")
            metrics = counting.get
        except (Py4JJavaError, PySparkException) as error:
            raise CopyFailed(f"Landing into {self._folder} failed: {told(error)}") from error
        return self._counts.add(metrics, offsets_in(begin, end))

    def rewrite(self, attempt: str, files: tuple[LandedFile, ...]) -> None:
        rewrite(self._spark, self._folder, attempt, files)

    def files(self, attempt: str) -> tuple[LandedFile, ...]:
        return landed_files(self._spark, self._folder, attempt)


class Interrupts:
    """Defers SIGINT and SIGTERM: pyspark would call the JVM from inside the handler, on a socket in use."""

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
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
