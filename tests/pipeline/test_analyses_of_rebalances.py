"""Analyses that ask the table rebalances. Ten rows; every expected number was computed by hand from them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from kshim_pipeline.analyses.correlation import correlation
from kshim_pipeline.analyses.phases import phases
from kshim_pipeline.analyses.slowest import slowest
from kshim_pipeline.analyses.stopped import stopped
from kshim_pipeline.analyses.storms import storms
from kshim_pipeline.analyses.why import why
from kshim_pipeline.schemas import OWNERSHIP, REBALANCES
from tests.pipeline.model_rows import rows_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000


def who(number: int, host: int, **more: Any) -> dict[str, Any]:
    return {"member_id": f"m{number}", "client_id": f"svc-{number}", "client_host": f"h{host}", **more}


def rebalance(n: int, group: str, ts_ms: int, total_ms: int, reason: str, trigger: Any, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "from_generation": n - 1, "to_generation": n, "ts_ms": ts_ms, "started_ts_ms": ts_ms,
        "ended_ts_ms": ts_ms + total_ms, "outcome": "completed", "reason": reason, "trigger": trigger,
        "protocol": "range", "partitions": 4, "join_ms": total_ms - 10, "sync_ms": 10, "total_ms": total_ms,
        "basis": "observed", "source": "events",
        "evidence": {"topic": "__kshim_events", "partition": 0, "offset": n}, **more,
    }  # fmt: skip


def waited(number: int, wait_ms: int, *, is_new: bool = False) -> dict[str, Any]:
    return who(number, number, is_new=is_new, wait_ms=wait_ms)


UNTOLD = dict.fromkeys(("join_ms", "total_ms", "started_ts_ms", "ended_ts_ms"))
ROWS = [
    rebalance(1, "a", 0, 1_000, "member_joined", who(1, 1), last_to_join=waited(2, 900)),
    rebalance(2, "a", 60_000, 2_000, "session_timeout", who(1, 1), outcome="superseded"),
    rebalance(3, "a", 62_000, 3_000, "member_joined", who(2, 2), last_to_join=waited(2, 2_500)),
    rebalance(4, "a", 120_000, 1_000, "member_left", who(1, 1)),
    rebalance(5, "a", 400_000, 1_000, "member_left", who(1, 1)),
    rebalance(6, "a", 1_000_000, 40_000, "leader_rejoined", who(3, 3), last_to_join=waited(2, 39_000)),
    rebalance(7, "b", 61_000, 5_000, "session_timeout", who(9, 1), last_to_join=waited(8, 4_000), partitions=8,
              protocol="cooperative-sticky"),
    rebalance(8, "b", 90_000_000, 700_000, "member_joined", who(9, 1), partitions=8,
              last_to_join=waited(2, 600_000, is_new=True)),
    rebalance(9, "c", 63_000, 0, "member_gone", None, partitions=2, basis="inferred", source="records") | UNTOLD
    | {"sync_ms": 20, "evidence": {"topic": "__consumer_offsets", "partition": 7, "offset": 9}},
    rebalance(10, "d", 64_000, 0, "member_left", who(4, 1), outcome="open") | UNTOLD | {"sync_ms": None},
]  # fmt: skip


@pytest.fixture(scope="module")
def rebalances(spark: SparkSession) -> DataFrame:
    return table(spark, REBALANCES, list(reversed(ROWS))).cache()


def test_a_rebalance_has_the_root_cause_of_its_chain(rebalances: DataFrame) -> None:
    columns = ("group_id", "ts_ms", "reason", "root_reason", "root_trigger.client_id", "root_ts_ms", "attempt",
               "waited_for.client_id", "basis", "explanation")  # fmt: skip
    rows = rows_of(why(rebalances), *columns, by=("group_id", "ts_ms"))
    assert rows[:4] == [
        ("a", 0, "member_joined", "member_joined", "svc-1", 0, 1, "svc-2", "observed",
         "member_joined by m1 (client svc-1 on h1), took 1.0 s, waited 0.9 s for m2"),
        ("a", 60_000, "session_timeout", "session_timeout", "svc-1", 60_000, 1, None, "observed",
         "session_timeout by m1 (client svc-1 on h1), took 2.0 s"),
        ("a", 62_000, "member_joined", "session_timeout", "svc-1", 60_000, 2, "svc-2", "observed",
         "session_timeout by m1 (client svc-1 on h1), took 3.0 s, waited 2.5 s for m2"),
        ("a", 120_000, "member_left", "member_left", "svc-1", 120_000, 1, None, "observed",
         "member_left by m1 (client svc-1 on h1), took 1.0 s"),
    ]  # fmt: skip
    assert [row[1:] for row in rows[7:]] == [
        (90_000_000, "member_joined", "member_joined", "svc-9", 90_000_000, 1, None, "observed",
         "member_joined by m9 (client svc-9 on h1), took 700.0 s"),
        (63_000, "member_gone", "member_gone", None, 63_000, 1, None, "inferred", "member_gone"),
        (64_000, "member_left", "member_left", "svc-4", 64_000, 1, None, "observed",
         "member_left by m4 (client svc-4 on h1)"),
    ]  # fmt: skip


def test_phases_are_percentiles_of_completed_rebalances(rebalances: DataFrame) -> None:
    by_group = phases(rebalances, by=("group_id",))
    columns = ("group_id", "basis", "rebalances", "join_p50_ms", "join_p99_ms", "sync_p50_ms", "total_p50_ms",
               "total_p95_ms")  # fmt: skip
    assert rows_of(by_group, *columns) == [
        ("a", "observed", 5, 990, 39_990, 10, 1_000, 40_000),
        ("b", "observed", 2, 4_990, 699_990, 10, 5_000, 700_000),
        ("c", "inferred", 1, None, None, 20, None, None),
    ]
    in_detail = rows_of(phases(rebalances), "group_id", "reason", "day", "rebalances")
    assert in_detail == [
        ("a", "leader_rejoined", date(1970, 1, 1), 1),
        ("a", "member_joined", date(1970, 1, 1), 2),
        ("a", "member_left", date(1970, 1, 1), 2),
        ("b", "member_joined", date(1970, 1, 2), 1),
        ("b", "session_timeout", date(1970, 1, 1), 1),
        ("c", "member_gone", date(1970, 1, 1), 1),
    ]


def test_a_storm_is_rebalances_close_together_and_flapping_is_one_client_that_triggers_most(
    rebalances: DataFrame,
) -> None:
    columns = ("group_id", "from_ts_ms", "to_ts_ms", "rebalances", "completed", "stopped_ms", "per_minute",
               "top_reason", "top_client_id", "top_client_host", "top_share", "is_flapping", "basis")  # fmt: skip
    assert rows_of(storms(rebalances), *columns) == [
        ("a", 0, 400_000, 5, 4, 8_000, 0.75, "member_left", "svc-1", "h1", 0.8, True, "observed")
    ]
    # A gap of 280 s tears it apart when gaps may be 200 s.
    assert rows_of(storms(rebalances, gap_ms=200_000, min_rebalances=4), "rebalances", "to_ts_ms") == [(4, 120_000)]


def test_the_slowest_are_those_that_others_waited_for_unless_they_were_new(rebalances: DataFrame) -> None:
    rows = rows_of(slowest(rebalances).drop("first", "last"))
    assert rows == [
        (1, "svc-2", "h2", 1, 2, 41_500, 20_750, 39_000, "observed"),
        (2, "svc-8", "h8", 1, 1, 4_000, 4_000, 4_000, "observed"),
    ]


def test_eager_rebalances_stop_all_partitions_and_cooperative_ones_those_that_move(
    spark: SparkSession, rebalances: DataFrame
) -> None:
    moved = [
        {"group_id": "b", "topic": "t", "partition": p, "owner": "new", "previous_owner": before, "from_generation": 7}
        for p, before in enumerate(("old", "old", "old", "new", None))
    ]
    rows = rows_of(stopped(rebalances, table(spark, OWNERSHIP, moved)).drop("first", "last"))
    assert rows == [
        ("a", date(1970, 1, 1), "observed", 6, 48_000, 40_000, 192_000),
        ("b", date(1970, 1, 1), "observed", 1, 5_000, 5_000, 15_000),
        ("b", date(1970, 1, 2), "observed", 1, 700_000, 700_000, 5_600_000),
        ("c", date(1970, 1, 1), "inferred", 1, 20, 20, 40),
    ]
    assert rows_of(stopped(rebalances).where("group_id = 'b'"), "partition_ms", "stopped_ms") == [
        (None, 5_000),
        (5_600_000, 700_000),
    ]


def test_groups_that_rebalance_together_are_correlated_by_host_and_by_client(rebalances: DataFrame) -> None:
    # Windows of 300 s, 301 of them. In the first h1 began rebalances of a, b and d, and clients svc those of a, b and d;
    # over all windows that is 5 and 6 groups. Four groups at once are too few to be the fleet.
    assert rows_of(correlation(rebalances).drop("first", "last")) == [
        ("client", "svc", 0, 300_000, 3, 6, 6 / 301, False),
        ("host", "h1", 0, 300_000, 3, 5, 5 / 301, False),
    ]
    of_the_fleet = correlation(rebalances, min_groups=1).where("kind = 'fleet'")
    assert rows_of(of_the_fleet, "groups", "rebalances", "is_inferred") == [(4, 7, True)]
