"""The SparkSession of a command: created once, passed down, with everything configured that Spark does not find itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.setup.jars import SPARK_VERSION, kafka_jars
from kshim_pipeline.setup.java import find_java, java_home_for_spark
from kshim_pipeline.setup.workers import python_of_workers, settings_of_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOCAL: Final = "local[*]"


class Jars(Enum):
    """Whether a session needs the jars of the Kafka source."""

    REQUIRED = "required"
    IF_PRESENT = "if present"
    """Parquet, segment files and logs are read without them."""


_LOG4J: Final = Path(__file__).with_name("log4j2.properties")

# Throughput counts, not latency; G1's own threads cost a tenth of two cores.
_GARBAGE: Final = "-XX:+UseParallelGC"

_BASE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Batches are bounded by rows: a group of 500 members takes 150 KB. To bound them by bytes, Spark adds up all columns of
    # a batch with each row, which is a seventh of what the JVM does here; no bound is told by the largest number.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.adaptive.enabled": "true",
    # Files are named one by one: else Spark makes a task of each to look at it.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # The other way reads __consumer_offsets as empty: see kshim_pipeline.inputs.kafka.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.ui.showConsoleProgress": "false",
    # Else each call that names a column makes five more to tell the JVM its place in our source, for messages that we do not print.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_BASE_LOCAL: Final = {
    # Nothing outside this machine takes part, and a host name that resolves to nothing must not matter.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark's 200 are for clusters: a small history would be 200 tasks of nothing, once a table and Python process.
    "spark.sql.shuffle.partitions": "16",
    # Adaptive execution joins small partitions into few tasks, rather than making use of every core.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.python.daemon.module": "kshim_pipeline.python_daemon",
}

BRIEF: Final = {
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"
}
"""Settings for a session that has little to do: half its CPU seconds went into compiling what then ran once."""

_FEW_ROWS: Final = 50_000
FOR_FEW: Final = {
    # One task a step, one job a query, and nothing compiled for it: what there is to do is done sooner than planned.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for queries over a few rows; they may change while a session runs."""


def make_session(
    app: str,
    master: str | None = None,
    *,
    jars: Jars = Jars.IF_PRESENT,
    driver_memory: str = "2g",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session named `app` on `master`, or the existing one.

    No master: `local[*]`, or what spark-submit passes. Workers of a cluster get our modules with the session (`workers`).
    `driver_memory` as Java writes it; in local mode it is all the memory there is. `config` overrides the defaults here.

    Raises PipelineError: no suitable Java, jars required and missing, another version of pyspark, or a JVM that does
    not start.
    """
    import pyspark
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    settings = dict(_BASE)
    if not _is_under_spark_submit():
        if pyspark.__version__ != SPARK_VERSION:
            raise PipelineError(
                f"pyspark is {pyspark.__version__}; the jars are those of {SPARK_VERSION}: "
                "pip install 'kshim[pipeline]'",
                EXIT_UNAVAILABLE,
            )
        master = master or LOCAL
        settings["spark.driver.memory"] = driver_memory
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
        settings["spark.driver.defaultJavaOptions"] = _GARBAGE  # those that `config` may replace
        settings |= _jar_settings(jars)
        _point_spark_at(Path(pyspark.__file__).parent, master)
        settings |= _BASE_LOCAL if _is_local(master) else settings_of_workers({})
    else:
        given = _given_by_spark_submit()
        if not _is_local(given.get("spark.master", LOCAL)):
            settings |= settings_of_workers(given)
    settings |= config or {}
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    try:
        return builder.config(map=dict(settings)).getOrCreate()
    except PySparkRuntimeError as error:
        raise PipelineError(
            f"The JVM for Spark did not start ({error}); its output is above", EXIT_UNAVAILABLE
        ) from error


def fit(spark: SparkSession, rows: int) -> None:
    """Adapt the settings of `spark` to a history of so many rows."""
    if rows <= _FEW_ROWS:
        for key, value in FOR_FEW.items():
            spark.conf.set(key, value)


def _is_under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _given_by_spark_submit() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # the settings are in the JVM that spark-submit has started
    return dict(SparkConf().getAll())


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _jar_settings(jars: Jars) -> dict[str, str]:
    try:
        paths = kafka_jars()
    except PipelineError:
        if jars is Jars.REQUIRED:
            raise
        return {}
    return {"spark.jars": ",".join(map(str, paths))}


def _point_spark_at(spark_home: Path, master: str) -> None:
    """Set the variables that pyspark and its scripts read. Spark takes `python3` from PATH for workers otherwise, whichever that is."""
    os.environ["JAVA_HOME"] = str(java_home_for_spark(find_java()))
    os.environ["SPARK_HOME"] = str(spark_home)  # of another Spark, perhaps, whose scripts would start
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the launcher looks the host name up before any setting
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", python_of_workers())
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
