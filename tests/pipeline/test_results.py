"""From a small history to everything that is known of it, written down and read again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from kshim_pipeline.analyses.registry import ANALYSES
from kshim_pipeline.cli import main
from kshim_pipeline.decode import decode
from kshim_pipeline.errors import EXIT_FAILURE, EXIT_OK, PipelineError
from kshim_pipeline.inputs.segments import cluster_of_data
from kshim_pipeline.materialize import in_folder
from kshim_pipeline.options import source_options
from kshim_pipeline.records import RECORDS as INPUT
from kshim_pipeline.report.explain import explain_at
from kshim_pipeline.report.gather import (
    Gathered,
    is_small,
    left_out_of_share_state,
    left_out_sentences,
    require_one_cluster,
    share_state,
)
from kshim_pipeline.report.results import compute, read_results, write_results
from kshim_pipeline.schemas import LOG_ENDS
from kshim_pipeline.topics import EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from tests.pipeline.model_rows import decoded, table
from tests.pipeline.test_decode import COMMIT
from tests.pipeline.test_model_rebalances import RECORDS
from tests.pipeline.test_share_state import SNAPSHOT, UPDATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    source_options(parser)
    return parser.parse_args(arguments)


def test_written_results_are_read_again(spark: SparkSession, tmp_path: Path) -> None:
    ends = table(spark, LOG_ENDS, [{"topic": "t", "partition": 0, "ts_ms": 9_000, "log_end_offset": 5}])
    rows: list[Any] = [(SHARE_STATE_TOPIC, 6, 0, 10, *SNAPSHOT, "here"), (SHARE_STATE_TOPIC, 6, 1, 20, *UPDATE, "here")]
    shared = share_state(spark.createDataFrame([*rows, rows[0]], INPUT))
    gathered = Gathered(decoded(spark, *RECORDS), None, None, ("by hand",), ends, (), shared)
    said: list[str] = []
    written = write_results(spark, gathered, str(tmp_path), said.append)
    found = read_results(spark, str(tmp_path))
    assert {path for path in written.tables if "/" not in path} == found.others.keys()
    assert found.analyses.keys() == ANALYSES.keys()
    assert found.tables["log_ends"].count() == 1
    assert sorted(row.kind for row in found.tables["share_state"].collect()) == ["share_snapshot", "share_update"]
    again = compute(spark, gathered, in_folder(spark, f"{tmp_path}/again", said.append))
    assert found.findings.count() == again.findings.count() > 0
    assert found.tables["rebalances"].count() > 0
    assert found.sources == ("by hand",)
    assert "computing rebalances" in said
    assert not (tmp_path / written.run / "work").exists()


def test_results_of_a_run_that_is_killed_are_never_seen_and_those_before_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Before its first table, and among the last; a reader sees what was published before, every table of it."""

    class Killed(BaseException):
        pass

    address = f"file://{tmp_path}"

    def write(*records: dict[str, Any], until: int = -1) -> None:
        said: list[str] = []

        def say(sentence: str) -> None:
            said.append(sentence)
            if len(said) == until:
                raise Killed

        write_results(spark, Gathered(decoded(spark, *records), None, None, ("by hand",)), address, say)

    def seen() -> dict[str, int]:
        found = read_results(spark, address)
        return {name: frame.count() for part in (found.tables, found.others) for name, frame in part.items()}

    another = RECORDS[0] | {"group_id": "another", "partition": 49}
    write(*RECORDS)
    before = seen()
    for until in (1, 12):
        with pytest.raises(Killed):
            write(*RECORDS, another, until=until)
        assert seen() == before
    write(*RECORDS, another)
    assert seen()["generations"] > before["generations"]
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_rebalance_is_explained_from_stored_tables_without_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sentences as through Spark; what could not be read is said again."""
    gathered = Gathered(decoded(spark, *RECORDS), None, None, ("by hand",), None, ("Left out: 3 records.",))
    write_results(spark, gathered, str(tmp_path), lambda _: None)
    written = read_results(spark, str(tmp_path))
    row = written.tables["rebalances"].orderBy("ts_ms").first()
    assert row is not None
    is_group = F.col("group_id") == row.group_id
    through_spark = explain_at(
        _rows(written.tables["rebalances"].where(is_group)),
        _rows(written.incidents.where(F.array_contains("groups", row.group_id))),
        _rows(written.tables["migrations"].where(is_group)),
        row.ts_ms,
    )
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["explain", row.group_id, "--at", str(row.ts_ms), "--results", str(tmp_path)]) == EXIT_OK
    said = capsys.readouterr()
    assert said.out.splitlines() == through_spark
    assert "Left out: 3 records." in said.err
    assert main(["explain", "nobody", "--results", str(tmp_path)]) == EXIT_FAILURE


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_what_cannot_be_read_is_counted(spark: SparkSession) -> None:
    unknown = [(COMMIT.key, b"\0\x09new"), (COMMIT.key, b"\0"), (b"\0\x63", b"\0\0")]
    rows = [(OFFSETS_TOPIC, 3, 10 + at, 0, key, value, "here") for at, (key, value) in enumerate(unknown)]
    events = [b'{"v": 7}', b"no JSON", b"none"]
    records = spark.createDataFrame(
        [*rows, *((EVENTS_TOPIC, 0, at, 0, b"g", value, "here") for at, value in enumerate(events))], INPUT
    )
    said = list(left_out_sentences(decode(records), records))
    assert len(said) == 4
    assert said[0].startswith("Left out: ")
    assert sorted(sentence for sentence in said if EVENTS_TOPIC in sentence) == [
        "Left out: 1 events of __kshim_events are not readable here: version 7.",
        "Left out: 2 events of __kshim_events are not readable here: malformed.",
    ]
    assert any(
        "2 records of __consumer_offsets cannot be read; the first (__consumer_offsets-3, offset 10)" in s for s in said
    )
    assert any("1 records of __consumer_offsets have an unknown type" in s for s in said)
    assert share_state(records) is None
    shared = share_state(spark.createDataFrame([(SHARE_STATE_TOPIC, 6, 4, 0, b"\0\x09", b"x", "here")], INPUT))
    assert list(left_out_of_share_state(shared)) == [
        "Left out: 1 records of __share_group_state have an unknown type; the first (__share_group_state-6, offset 4): "
        "key type 9."
    ]


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
    for day in ("2026-11-22", "2026-11-23"):
        folder = tmp_path / f"records/batch=1-a/topic={OFFSETS_TOPIC}/day={day}"
        folder.mkdir(parents=True)
        with (folder / "part-0.parquet").open("wb") as file:
            file.truncate(3 << 19)
    assert not is_small(options(f"--landed={tmp_path}"))
    assert is_small(options(f"--landed={tmp_path}", "--since=2026-11-23"))
    assert is_small(options(f"--landed={tmp_path}", "--until=2026-11-23"))
    each = options(f"--landed={tmp_path}")
    each.each_day = True
    assert is_small(each)
