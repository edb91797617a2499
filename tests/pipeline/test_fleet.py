"""A synthetic fleet: the same for a seed, mixed as documented, and its tables tell one story."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from bench.fleet.draws import chosen
from bench.fleet.fleet import (
    FLAPPING_SHARE,
    GROUP_KINDS,
    PROTOCOLS,
    SHARED_SHARE,
    STATIC_SHARE,
    Fleet,
    groups,
)
from bench.fleet.rebalances import EVEN_REASONS, LEAVING_REASONS
from bench.fleet.records import group_metadata
from bench.fleet.tables import tables
from bench.fleet.timeline import timelines
from kshim_pipeline.analyses.registry import ANALYSES, all_findings, run
from kshim_pipeline.materialize import Materialize
from kshim_pipeline.model.generations import generations
from kshim_pipeline.model.memberships import memberships
from kshim_pipeline.model.ownership import ownership
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FLEET = Fleet(rebalances=1_000, groups=40, seed=5)


class Made(NamedTuple):
    """A small fleet, read into memory once."""

    frames: dict[str, DataFrame]
    rows: dict[str, list[Row]]


@pytest.fixture(scope="module")
def made(spark: SparkSession, materialize: Materialize) -> Made:
    frames = {name: materialize(name, frame) for name, frame in tables(spark, FLEET, tasks=2).items()}
    return Made(frames, {name: frame.collect() for name, frame in frames.items()})


def in_order(rows: list[Row]) -> list[str]:
    return sorted(map(str, rows))


def test_a_seed_gives_the_same_rows_however_the_work_is_divided(spark: SparkSession, made: Made) -> None:
    again = tables(spark, FLEET, tasks=3)
    assert in_order(again["rebalances"].collect()) == in_order(made.rows["rebalances"])


def test_another_seed_gives_another_fleet_of_the_same_size(spark: SparkSession, made: Made) -> None:
    fleet = FLEET._replace(seed=6)
    other = timelines(groups(spark, fleet, tasks=2), fleet).select("group_id", "t.begin_ms").collect()
    assert len(other) == len(made.rows["rebalances"]) == FLEET.rebalances
    instants = {(row.group_id, row.begin_ms) for row in other}
    assert not instants & {(row.group_id, row.ts_ms) for row in made.rows["rebalances"]}


def test_fewer_rebalances_than_groups_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="not one for each"):
        tables(spark, Fleet(rebalances=9, groups=10))


def test_the_tables_have_the_columns_of_the_model(made: Made) -> None:
    for name, frame in made.frames.items():
        expected = [(field.name, field.dataType) for field in TABLES[name].schema.fields]
        assert [(field.name, field.dataType) for field in frame.schema.fields] == expected
        required = [field.name for field in TABLES[name].schema.fields if not field.nullable]
        assert [(name, column) for row in made.rows[name] for column in required if row[column] is None] == []


def test_groups_are_mixed_as_documented(spark: SparkSession) -> None:
    rows = groups(spark, Fleet(rebalances=1_000_000), tasks=2).collect()
    count = len(rows)
    assert count == 10_000
    assert sum(row.rebalances for row in rows) == 1_000_000
    kinds, protocols = Counter(row.kind for row in rows), Counter(row.protocol for row in rows)
    for name, share in (*((kind.name, kind.share) for kind in GROUP_KINDS), *PROTOCOLS):
        assert (kinds[name] or protocols[name]) / count == pytest.approx(share, abs=0.02), name
    for share, found in (
        (STATIC_SHARE, sum(row.is_static for row in rows)),
        (FLAPPING_SHARE, sum(row.is_flapping for row in rows)),
        (SHARED_SHARE, sum(row.family is not None for row in rows)),
    ):
        assert found / count == pytest.approx(share, abs=0.02)
    bounds = {kind.name: kind for kind in GROUP_KINDS}
    for row in rows:
        kind = bounds[row.kind]
        assert kind.members[0] <= row.members <= kind.members[1]
        assert kind.partitions[0] <= row.partitions <= kind.partitions[1]
    restless = sorted((row.rebalances for row in rows), reverse=True)
    assert 0.05 < sum(restless[:100]) / 1_000_000 < 0.3, "one group in a hundred has far more than its share"


def test_a_value_is_chosen_as_often_as_its_share_says(spark: SparkSession) -> None:
    choices = [("a", 0.5), ("b", 0.3), ("c", 0.2)]
    hundred = spark.range(100).select(chosen(F.col("id") / 100, choices).alias("value")).collect()
    assert Counter(row.value for row in hundred) == {"a": 50, "b": 30, "c": 20}


def test_reasons_are_mixed_as_documented(made: Made) -> None:
    dynamic = [row for row in made.rows["rebalances"] if row.trigger is None or row.trigger.group_instance_id is None]
    reasons = Counter(row.reason for row in dynamic)
    for choices in (LEAVING_REASONS, EVEN_REASONS):
        count = sum(reasons[reason] for reason, _ in choices)
        assert count > 50
        for reason, share in choices:
            assert reasons[reason] / count == pytest.approx(share, abs=0.1), reason


def by_group(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.group_id, row.ts_ms)):
        found.setdefault(row.group_id, []).append(row)
    return found


def test_rebalances_follow_each_other_with_consecutive_generations(made: Made) -> None:
    histories = by_group(made.rows["rebalances"])
    assert len(histories) == FLEET.groups
    for rows in histories.values():
        assert [row.to_generation for row in rows] == list(range(1, len(rows) + 1))
        assert all(row.from_generation == row.to_generation - 1 for row in rows)
        for row in rows:
            assert row.ts_ms <= row.ended_ts_ms < FLEET.start_ms + FLEET.length_ms
            if row.outcome != "aborted":
                assert row.ts_ms <= row.joined_ts_ms <= row.ended_ts_ms
                assert row.join_ms + row.sync_ms == row.total_ms == row.ended_ts_ms - row.ts_ms
        for row, after in pairwise(rows):
            assert row.ended_ts_ms <= after.ts_ms
            assert row.outcome != "superseded" or row.ended_ts_ms == after.ts_ms
        assert rows[-1].outcome != "superseded"
    assert {row.outcome for row in made.rows["rebalances"]} == {"completed", "superseded", "aborted"}


def test_generations_and_ownership_are_what_the_model_makes_of_the_records(spark: SparkSession, made: Made) -> None:
    recorded = groups(spark, FLEET, tasks=2).where("is_recorded")
    taken = snapshots(group_metadata(recorded, FLEET)).cache()
    assert in_order(generations(taken).collect()) == in_order(made.rows["generations"])
    assert in_order(ownership(taken).collect()) == in_order(made.rows["ownership"])
    assert max(row.missed or 0 for row in made.rows["generations"]) == 1
    assert any(row.unowned_ms for row in made.rows["ownership"])

    def told(rows: list[Row]) -> set[tuple[Any, ...]]:
        names = ("group_id", "generation_id", "member_id", "client_host", "owner", "change", "is_leader", "partitions")
        return {tuple(row[name] for name in names) for row in rows}

    of_the_model, ours = told(memberships(taken).collect()), told(made.rows["memberships"])
    assert len(ours) == len(made.rows["memberships"])
    assert ours < of_the_model
    assert {row for row in of_the_model - ours if row[5] != "kept"} == set()


def test_who_joined_last_waited_longest_in_both_tables(made: Made) -> None:
    completed = {
        (row.group_id, row.to_generation): row
        for row in made.rows["rebalances"]
        if row.outcome == "completed" and row.partitions is not None
    }
    here = [row for row in made.rows["memberships"] if row.change != "left"]
    assert {(row.group_id, row.generation_id) for row in here} == completed.keys()
    for row in here:
        last = completed[row.group_id, row.generation_id].last_to_join
        assert row.join_wait_ms <= last.wait_ms
        assert row.member_id != last.member_id or (row.join_wait_ms == last.wait_ms)


def test_commits_lie_in_the_generation_that_they_name(made: Made) -> None:
    stored = by_group(made.rows["generations"])
    for group, rows in by_group(made.rows["commits"]).items():
        for row in rows:
            latest = max((g.generation_id for g in stored[group] if g.ts_ms <= row.ts_ms), default=None)
            assert row.generation_id == latest
        offsets = [row.evidence.offset for row in sorted(rows, key=lambda row: (row.partition, row.ts_ms))]
        of_partition = [row.partition for row in sorted(rows, key=lambda row: (row.partition, row.ts_ms))]
        assert sorted(zip(of_partition, offsets, strict=True)) == list(zip(of_partition, offsets, strict=True))


def test_all_analyses_run_on_it_and_find_something(made: Made, materialize: Materialize) -> None:
    rows = {name: run(analysis, made.frames) for name, analysis in ANALYSES.items()}
    done = {name: materialize(f"analyses/{name}", frame) for name, frame in rows.items() if frame is not None}
    assert done.keys() == ANALYSES.keys()
    counts = {row.analysis: row["count"] for row in all_findings(done).groupBy("analysis").count().collect()}
    assert {"why", "phases", "storms", "slowest", "silence", "crash_loops", "timeouts"} <= counts.keys()
