"""`kshim pipeline setup`: find Java, fetch and verify jars; `--check` also runs Spark with both."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kshim_pipeline.errors import EXIT_OK, PipelineError
from kshim_pipeline.setup.jars import JARS, SPARK_VERSION, fetch, jars_dir, kafka_jars, take_from
from kshim_pipeline.setup.java import find_java
from kshim_pipeline.setup.session import Jars, make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(options: argparse.Namespace) -> int:
    """Set up, and print what was found. Raises PipelineError."""
    java = find_java()
    print(f"Java {java.version} in {java.home} (from {java.origin})")
    if options.jars is not None:
        take_from(options.jars, options.cache)
    elif not _are_there(options.cache):
        print(f"Fetching {len(JARS)} jars for Spark {SPARK_VERSION} ...", file=sys.stderr, flush=True)
        fetch(options.cache, ivy_settings=options.ivy_settings)
    print(f"{len(JARS)} jars for Spark {SPARK_VERSION} in {jars_dir(options.cache)}: checksums match")
    if options.check:
        _check_spark()
    return EXIT_OK


def _are_there(cache: Path | None) -> bool:
    """Whether all jars are there. Raises PipelineError: the checksum of one differs."""
    home = jars_dir(cache)
    if not all((home / name).is_file() for name in JARS):
        return False
    kafka_jars(cache)
    return True


def _check_spark() -> None:
    session = make_session("kshim pipeline setup", "local[1]", jars=Jars.REQUIRED)
    try:
        count = session.range(3).mapInArrow(lambda batches: batches, "id long").count()
        if count != 3:
            raise PipelineError(f"Spark counted {count} rows instead of 3")
        _check_connector(session)
        print(f"Spark {session.version} and its Python workers run")
    finally:
        session.stop()


def _check_connector(session: SparkSession) -> None:
    """Provoke the source's check of its options, which shows that it was loaded."""
    from pyspark.errors import PySparkException

    try:
        session.read.format("kafka").option("assign", '{"t":[0]}').load()
    except PySparkException as error:
        if "kafka.bootstrap.servers" not in str(error):
            raise PipelineError(f"Spark cannot use its Kafka source: {error}") from error
