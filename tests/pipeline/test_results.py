"""From a small history to everything that is known of it, written down and read again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshim_pipeline.analyses.registry import ANALYSES
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.inputs.segments import cluster_of_data
from kshim_pipeline.options import source_options
from kshim_pipeline.report.gather import Gathered, is_small, require_one_cluster
from kshim_pipeline.report.results import compute, read_results, write_results
from kshim_pipeline.schemas import LOG_ENDS
from tests.pipeline.model_rows import decoded, table
from tests.pipeline.test_model_rebalances import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    source_options(parser)
    return parser.parse_args(arguments)


def test_written_results_are_read_again(spark: SparkSession, tmp_path: Path) -> None:
    ends = table(spark, LOG_ENDS, [{"topic": "t", "partition": 0, "ts_ms": 9_000, "log_end_offset": 5}])
    gathered = Gathered(decoded(spark, *RECORDS), None, None, ("by hand",), ends)
    written = write_results(spark, gathered, str(tmp_path), lambda _: None)
    found = read_results(spark, str(tmp_path))
    assert found.tables.keys() == written.tables.keys()
    assert found.analyses.keys() == written.analyses.keys() == ANALYSES.keys()
    assert found.tables["log_ends"].count() == 1
    assert found.findings.count() == written.findings.count()
    assert found.tables["rebalances"].count() > 0
    assert found.sources == ("by hand",)
    assert not (tmp_path / "work").exists()


def test_sources_of_two_clusters_are_refused() -> None:
    require_one_cluster({"a:1": "east", "landed": "east", "data": None})
    with pytest.raises(
        PipelineError, match=r"a:1 of the cluster east and landed of the cluster west: .* would be mixed up"
    ):
        require_one_cluster({"a:1": "east", "landed": "west"})


def test_the_cluster_of_a_data_directory_is_read_as_the_broker_wrote_it(tmp_path: Path) -> None:
    assert cluster_of_data(tmp_path) is None
    (tmp_path / "meta.properties").write_text(
        "#\n#Tue Nov 24 01:00:00 UTC 2026\nnode.id=1\nversion=1\ncluster.id=4L6g3nShT\n"
    )
    assert cluster_of_data(tmp_path) == "4L6g3nShT"


def test_unused_results_are_not_computed(spark: SparkSession) -> None:
    asked: list[str] = []

    def materialize(name: str, frame: DataFrame) -> DataFrame:
        asked.append(name)
        return frame

    results = compute(spark, Gathered(decoded(spark, *RECORDS), None, None, ()), materialize)
    asked.clear()
    assert ANALYSES.keys() - results.analyses.keys() == {"recovery"}, "nobody sampled log ends"
    assert results.tables["rebalances"].columns
    assert asked == ["tables/rebalances"]


def test_a_folder_without_results_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="contains no results"):
        read_results(spark, str(tmp_path))


def test_little_data_on_this_machine_is_small(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("a line\n")
    log = f"--broker-log={tmp_path}/server.log*"
    assert is_small(options(f"--landed={tmp_path}", log))
    assert not is_small(options("--bootstrap-server=127.0.0.1:9092")), "nobody knows yet"
    assert not is_small(options(log, f"--landed={tmp_path}/elsewhere")), "it cannot be seen from here"
    with (tmp_path / "large.parquet").open("wb") as file:
        file.truncate(100 << 20)
    assert not is_small(options(f"--landed={tmp_path}"))
