"""Periodic samples of log end offsets: without them, records do not show any lag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.inputs.kafka import Cluster
from kshim_pipeline.schemas import LOG_ENDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_EVERY_S: Final = 60.0
"""What the lag curve of `analyses.recovery` asks for."""
_FOLDER: Final = "log_ends"


def log_ends(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """The table log_ends: the current end of every partition of the cluster's ordinary topics. Raises PipelineError."""
    ts_ms = time.time_ns() // 1_000_000
    ends = cluster.ends(spark)
    rows = [(topic, partition, ts_ms, end) for (topic, partition), end in sorted(ends.items())]
    return spark.createDataFrame(rows, LOG_ENDS)


def read_log_ends(spark: SparkSession, folder: str) -> DataFrame | None:
    """The samples that were landed in `folder`; None: there are none."""
    try:
        return spark.read.schema(LOG_ENDS).parquet(f"{folder}/{_FOLDER}")
    except AnalysisException:
        return None


class LogEnds:
    """Appends samples to the directory of landed records, at least a minute apart."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: str) -> None:
        self._spark = spark
        self._cluster = cluster
        self._path = f"{folder}/{_FOLDER}"
        self._due_s = 0.0
        self.samples = 0

    def sample(self) -> None:
        """Take a sample if it is due. After a cluster fails to answer, the failure is reported once and sampling stops."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + _EVERY_S
        try:
            log_ends(self._spark, self._cluster).coalesce(1).write.mode("append").parquet(self._path)
            self.samples += 1
        except PipelineError as error:
            print(f"Log end offsets are not sampled, so lag will not be known: {error}")
            self._due_s = float("inf")
