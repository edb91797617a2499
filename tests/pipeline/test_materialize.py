"""Frames that are read often are computed once, and unused ones never."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kshim_pipeline.materialize import OnDemand, by_workers, in_folder, in_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_frame_is_computed_once_when_it_is_first_used() -> None:
    made: list[str] = []

    def make(name: str) -> Any:
        made.append(name)
        return f"rows of {name}"

    def materialize(name: str, frame: Any) -> Any:
        return name, frame

    frames: Any = OnDemand({name: partial(make, name) for name in ("one", "other")}, materialize, under="t/")
    assert list(frames) == ["one", "other"]
    assert "other" in frames
    assert made == []
    assert [frames["one"], frames["one"]] == [("t/one", "rows of one")] * 2
    assert made == ["one"]


def test_a_frame_that_is_stored_already_is_not_computed_again() -> None:
    def never(name: str, frame: Any) -> Any:
        raise AssertionError(name)

    stored: Any = {"one": "rows"}
    frames: Any = OnDemand({"one": partial(never, "one", None)}, never, made=stored)
    assert (list(frames), frames["one"]) == (["one"], "rows")


def test_a_frame_in_a_folder_is_read_from_there(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    materialize = in_folder(spark, str(tmp_path), said.append)
    kept = materialize("tables/numbers", spark.range(3).select(F.col("id").alias("n"), F.rand(seed=7).alias("drawn")))
    assert sorted(row.n for row in kept.collect()) == [0, 1, 2]
    assert kept.inputFiles() != []
    assert (tmp_path / "tables/numbers/_SUCCESS").exists()
    assert said == ["computing numbers"]


def test_a_frame_of_a_session_is_deleted_after_it(spark: SparkSession) -> None:
    with in_session(spark, lambda _: None) as materialize:
        (file, *_) = materialize("numbers", spark.range(3).toDF("n")).inputFiles()
        place = Path(file.removeprefix("file://"))
        assert place.exists()
    assert not place.exists()


def test_a_frame_in_the_workers_has_a_plan_of_its_own(spark: SparkSession) -> None:
    numbers = spark.range(3).select((F.col("id") * 2).alias("n"))
    kept = by_workers(lambda _: None)("numbers", numbers)
    assert [row.n for row in kept.orderBy("n").collect()] == [0, 2, 4]
    assert "Range" in str(numbers._jdf.queryExecution().analyzed())
    assert "Range" not in str(kept._jdf.queryExecution().analyzed())
