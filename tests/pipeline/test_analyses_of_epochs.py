"""Analyses of groups of the new protocol, and of those that go over to it. Every expected number was computed by hand."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from kshim_pipeline.analyses import migrations as of_migrations
from kshim_pipeline.analyses import phases as of_phases
from kshim_pipeline.analyses.migrations import migrations
from kshim_pipeline.analyses.phases import phases
from kshim_pipeline.analyses.slowest import slowest
from kshim_pipeline.analyses.stopped import stopped
from kshim_pipeline.analyses.storms import findings as storm_findings
from kshim_pipeline.analyses.storms import storms
from kshim_pipeline.analyses.why import why
from kshim_pipeline.schemas import MIGRATIONS, REBALANCES
from tests.pipeline.model_rows import rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def who(name: str, **more: Any) -> dict[str, Any]:
    return {"member_id": name, "client_id": f"svc-{name}", "client_host": f"host-{name}", **more}


def epoch(n: int, group: str, ts_ms: int, *phase_ms: int, **more: Any) -> dict[str, Any]:
    """A completed rebalance of a group of the new protocol, with its phases."""
    compute_ms, revoke_ms, assign_ms = phase_ms
    return {
        "group_id": group, "group_type": "consumer", "from_generation": n - 1, "to_generation": n, "ts_ms": ts_ms,
        "started_ts_ms": ts_ms, "ended_ts_ms": ts_ms + sum(phase_ms), "outcome": "completed", "reason": "member_joined",
        "trigger": who("b"), "partitions": 6, "compute_ms": compute_ms, "revoke_ms": revoke_ms, "assign_ms": assign_ms,
        "total_ms": sum(phase_ms), "unowned_ms": 0, "unowned_partition_ms": 0, "basis": "observed", "source": "events",
        "evidence": {"topic": "__kshim_events", "partition": 0, "offset": n}, **more,
    }  # fmt: skip


UPGRADED = {
    "group_id": "m", "ts_ms": 1_000, "from_type": "classic", "to_type": "consumer", "generation_id": 5, "members": 3,
    "trigger": who("b"), "basis": "observed", "evidence": {"topic": "__kshim_events", "partition": 0, "offset": 7},
}  # fmt: skip
ROWS = [
    epoch(2, "g", 0, 0, 0, 1_000),
    epoch(3, "g", 60_000, 1_000, 40_000, 4_000, last_to_revoke=who("a", is_new=False, wait_ms=40_000),
          unowned_ms=3_000, unowned_partition_ms=5_000),
    *(epoch(5 + n, "m", 1_000 + n * 10_000, 100, 0, 400) for n in range(6)),
]  # fmt: skip


@pytest.fixture(scope="module")
def rebalances(spark: SparkSession) -> DataFrame:
    return table(spark, REBALANCES, list(reversed(ROWS))).cache()


def test_phases_of_the_new_protocol_are_compute_revoke_and_assign(rebalances: DataFrame) -> None:
    rows = phases(rebalances.where("group_id = 'g'"), by=("group_id",)).cache()
    columns = ("rebalances", "compute_p50_ms", "compute_p99_ms", "revoke_p99_ms", "assign_p99_ms", "join_p50_ms")
    assert rows_of(rows, *columns) == [(2, 0, 1_000, 40_000, 4_000, None)]
    slow = phases(rebalances).where("group_id = 'g'")
    ((sentence, advice),) = rows_of(of_phases.findings(slow), "sentence", "advice")
    assert sentence == (
        "Of 2 rebalances of group g by member_joined on 1970-01-01, 5 % took 45.0 s or longer (compute 1.0 s, revoke 40.0 s, "
        "assign 4.0 s)."
    )
    assert advice.startswith("Members are slow to give up partitions")


def test_the_slowest_of_the_new_protocol_gave_up_partitions_last(rebalances: DataFrame) -> None:
    assert rows_of(slowest(rebalances), "client_id", "times", "lost_ms", "basis") == [("svc-a", 1, 40_000, "observed")]
    explained = why(rebalances).where("to_generation = 3 and group_id = 'g'")
    assert rows_of(explained, "waited_for.client_id", "explanation") == [
        ("svc-a", "member_joined by b (client svc-b on host-b), took 45.0 s, waited 40.0 s for a")
    ]


def test_a_group_of_the_new_protocol_is_stopped_where_partitions_have_no_owner(rebalances: DataFrame) -> None:
    assert rows_of(stopped(rebalances).where("group_id = 'g'").drop("first", "last")) == [
        ("g", date(1970, 1, 1), "observed", 2, 3_000, 3_000, 5_000)
    ]


def test_rebalances_of_a_migration_are_no_storm(spark: SparkSession, rebalances: DataFrame) -> None:
    found = storms(rebalances, table(spark, MIGRATIONS, [UPGRADED])).cache()
    assert rows_of(found, "group_id", "rebalances", "migrations", "is_flapping") == [("m", 6, 1, False)]
    assert rows_of(storm_findings(found), "severity", "cause", "sentence") == [
        ("info", "migration", "Group m rebalanced 6 times from 1970-01-01 00:00:01 to 1970-01-01 00:00:51, while it went over "
         "to the other protocol.")
    ]  # fmt: skip
    assert rows_of(storms(rebalances), "group_id", "migrations", "is_flapping") == [("m", 0, True)]


def test_a_migration_is_a_row_with_its_time_until_the_group_was_stable(
    spark: SparkSession, rebalances: DataFrame
) -> None:
    rows = migrations(table(spark, MIGRATIONS, [UPGRADED]), rebalances).cache()
    assert rows_of(rows, "group_id", "from_type", "to_type", "trigger.client_id", "settled_ms") == [
        ("m", "classic", "consumer", "svc-b", 500)
    ]
    assert rows_of(of_migrations.findings(rows), "cause", "sentence") == [
        ("group_upgraded", "Group m went over to the new protocol at 1970-01-01 00:00:01 with 3 members when client svc-b on "
         "host-b joined with it; 0.5 s later it was stable.")
    ]  # fmt: skip
