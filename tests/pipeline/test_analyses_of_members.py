"""Analyses that ask memberships, ownership and commits. Expected numbers were computed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kshim_pipeline.analyses.crash_loops import crash_loops
from kshim_pipeline.analyses.recovery import lag_curve, recovery
from kshim_pipeline.analyses.silence import findings as silence_findings
from kshim_pipeline.analyses.silence import silence
from kshim_pipeline.analyses.stickiness import by_assignor, stickiness
from kshim_pipeline.analyses.stuck import stuck
from kshim_pipeline.analyses.timeouts import timeouts
from kshim_pipeline.materialize import Materialize
from kshim_pipeline.model.build import build
from kshim_pipeline.schemas import COMMITS, GENERATIONS, LOG_ENDS, MEMBERSHIPS, OWNERSHIP, REBALANCES
from tests.pipeline.model_rows import decoded, rows_of, table
from tests.pipeline.test_model_records import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def life(group: str, member_id: str, ts_ms: int, change: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "incarnation": 0, "generation_id": 1, "ts_ms": ts_ms, "member_id": member_id,
        "owner": member_id, "client_id": "c", "client_host": "h", "change": change, "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000, "source": "both",
        "evidence": {"topic": "__kshim_events", "partition": 0, "offset": ts_ms}, **more,
    }  # fmt: skip


EXPIRED = {"left_reason": "session_timeout"}
LIVES = [
    # loop: each member is lost, the next comes 1, 1 and 2 s later.
    life("loop", "m1", 0, "joined"), life("loop", "m1", 100_000, "left", **EXPIRED),
    life("loop", "m2", 101_000, "joined"), life("loop", "m2", 200_000, "left", **EXPIRED),
    life("loop", "m3", 201_000, "joined"), life("loop", "m3", 300_000, "left", **EXPIRED),
    life("loop", "m4", 302_000, "joined"),
    # zombie: the old one is still there for 45 s when the new one comes.
    life("zombie", "n1", 0, "joined"), life("zombie", "n2", 50_000, "joined"),
    life("zombie", "n1", 95_000, "left", **EXPIRED), life("zombie", "n3", 150_000, "joined"),
    life("zombie", "n2", 195_000, "left", **EXPIRED), life("zombie", "n4", 250_000, "joined"),
    life("zombie", "n3", 295_000, "left", **EXPIRED),
    # deploy: three threads of one client go and come at once, twice. That is two restarts.
    *(life("deploy", f"d{n}", 0, "joined") for n in range(3)),
    *(life("deploy", f"d{n}", 100_000, "left", left_reason="member_left") for n in range(3)),
    *(life("deploy", f"e{n}", 101_000, "joined") for n in range(3)),
    *(life("deploy", f"e{n}", 200_000, "left", left_reason="member_left") for n in range(3)),
    *(life("deploy", f"f{n}", 201_000, "joined") for n in range(3)),
    # static: it comes back under another id three times.
    *(life("static", f"s-{n}", n * 60_000, "replaced", owner="s", source="records") for n in range(1, 4)),
]  # fmt: skip


def test_a_crash_loop_is_one_client_that_joins_repeatedly(spark: SparkSession) -> None:
    rows = crash_loops(table(spark, MEMBERSHIPS, LIVES)).drop("first", "last")
    assert rows_of(rows) == [
        ("loop", "c", "h", 0, 302_000, 4, 3, 0, 100_666, "session_timeout", "observed"),
        ("static", "c", "h", 60_000, 180_000, 0, 3, 0, 40_000, None, "inferred"),
        ("zombie", "c", "h", 0, 250_000, 4, 3, 3, 83_333, "session_timeout", "observed"),
    ]


WAITS = [
    *(life("calm", f"w{n}", 0, "kept", join_wait_ms=wait) for n, wait in enumerate((100, 200, 300, 4_000))),
    life("late", "w", 0, "kept", join_wait_ms=290_000),
    life("late", "x", 1, "left", left_reason="rebalance_timeout"),
]


def test_timeouts_are_compared_with_waits_and_lost_members(spark: SparkSession) -> None:
    columns = ("group_id", "waits", "wait_p50_ms", "wait_p95_ms", "wait_max_ms", "kicked_by_session",
               "kicked_by_rebalance", "came_back", "back_p95_ms", "fit_session_timeout_ms",
               "fit_rebalance_timeout_ms")  # fmt: skip
    lives = [row for row in LIVES if row["group_id"] in ("loop", "zombie")]
    assert rows_of(timeouts(table(spark, MEMBERSHIPS, lives + WAITS), min_waits=4), *columns) == [
        # Nobody needs 300 s; three times 4 s are 12 s, and less than 30 s is never advised.
        ("calm", 4, 200, 4_000, 4_000, 0, 0, 0, None, None, 30_000),
        ("late", 1, 290_000, 290_000, 290_000, 0, 1, 0, None, None, 600_000),
        # All three were back within 2 s: 45 s and 2 s would have kept them.
        ("loop", 0, None, None, None, 3, 0, 3, 2_000, 50_000, None),
        # Each one's successor was there before it was lost.
        ("zombie", 0, None, None, None, 3, 0, 0, None, None, None),
    ]


def test_stickiness_counts_moves_and_those_from_members_that_stayed(
    spark: SparkSession, materialize: Materialize
) -> None:
    model = build(spark, decoded(spark, *HISTORY), materialize=materialize)
    rows = stickiness(model["generations"], model["ownership"], model["memberships"]).cache()
    # Generations 4, 5, 6, 7 followed 3, 3, 3, 2 partitions. Moved: 2 from a to b, 1 from a to s, 0 from a (gone) to b.
    expected = (4, 11, 3, 2, 1 - 3 / 11)
    assert rows_of(rows.drop("first", "last")) == [("g", "range", *expected)]
    assert rows_of(by_assignor(rows)) == [("range", 1, *expected)]


def commit(group: str, partition: int, ts_ms: int, committed: int | None, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group, "topic": "t", "partition": partition, "committed_offset": committed, "ts_ms": ts_ms,
        "incarnation": 0, "generation_id": 1,
        "evidence": {"topic": "__consumer_offsets", "partition": 7, "offset": ts_ms + partition}, **more,
    }  # fmt: skip


def sample(partition: int, ts_ms: int, end: int, topic: str = "t") -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "ts_ms": ts_ms, "log_end_offset": end}


@pytest.fixture(scope="module")
def standing(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    commits = [
        commit("g", 0, 0, 10), commit("g", 0, 1_000_000, 10),
        commit("g", 1, 0, 1), commit("g", 1, 900_000, 5),
        commit("g", 2, 0, 3),
        commit("g", 3, 0, 3), commit("g", 3, 10, None),
        commit("e", 4, 500_000, 7),
    ]  # fmt: skip
    held = {"group_id": "g", "topic": "t", "from_ts_ms": 0, "client_id": "c", "client_host": "h"}
    return (
        table(spark, COMMITS, commits),
        table(spark, OWNERSHIP, [
            {**held, "partition": 0, "owner": "a"}, {**held, "partition": 1, "owner": "b"},
            {**held, "partition": 2, "owner": "a", "to_ts_ms": 400_000},
        ]),
        table(spark, GENERATIONS, [
            {"group_id": "g", "ts_ms": 0, "state": "Empty", "until_ts_ms": 1},
            {"group_id": "g", "ts_ms": 1, "state": "Stable"}, {"group_id": "e", "ts_ms": 9, "state": "Empty"},
        ]),
    )  # fmt: skip


def test_partitions_are_stuck_orphaned_or_unattended(
    spark: SparkSession, standing: tuple[DataFrame, DataFrame, DataFrame]
) -> None:
    ends = table(
        spark, LOG_ENDS, [sample(0, 5, 20), *(sample(p, 1_000_000, n) for p, n in enumerate((50, 9, 3, 3, 8)))]
    )
    columns = ("group_id", "partition", "kind", "owner", "committed_offset", "lag", "last_progress_ts_ms", "silent_ms")
    assert rows_of(stuck(*standing, log_ends=ends), *columns) == [
        ("e", 4, "unattended", None, 7, 1, 500_000, 500_000),
        ("g", 0, "stuck", "a", 10, 40, 0, 1_000_000),
        ("g", 2, "orphan", None, 3, 0, 0, 1_000_000),
    ]
    assert rows_of(stuck(*standing, now_ms=700_000), "partition", "kind", "lag", "silent_ms") == [
        (0, "stuck", None, 700_000),
        (2, "orphan", None, 700_000),
    ]


def test_silence_and_replay_are_measured_at_the_first_commit_of_a_generation(spark: SparkSession) -> None:
    commits = [
        *(commit("g", 0, n * 1_000, n * 100) for n in range(4)),
        commit("g", 0, 13_000, 1_000, generation_id=2),
        commit("g", 0, 15_000, 400, generation_id=3),
    ]
    stored = [{"group_id": "g", "incarnation": 0, "generation_id": n, "ts_ms": ts}
              for n, ts in ((1, 0), (2, 3_500), (3, 14_000))]  # fmt: skip
    columns = ("generation_id", "before_ts_ms", "after_ts_ms", "silent_ms", "usual_ms", "rewound", "replayed")
    assert rows_of(silence(table(spark, COMMITS, commits), table(spark, GENERATIONS, stored)), *columns) == [
        # 100 records a second, half a second from the last commit to the generation: 50 are read twice.
        (2, 3_000, 13_000, 10_000, 1_000, 0, 50),
        (3, 13_000, 15_000, 2_000, 3_250, 600, 0),
    ]


def test_offsets_that_go_back_in_most_generations_are_one_doubtful_finding_of_the_group(spark: SparkSession) -> None:
    def row(group: str, generation_id: int, rewound: int) -> tuple[object, ...]:
        at_ms = generation_id * 10_000
        return group, 0, generation_id, at_ms, at_ms - 100, at_ms + 100, 200, 100, rewound, 0, None, None

    rows = [row("habit", n, 40 if n != 3 else 0) for n in range(1, 6)]
    rows += [row("once", n, 40 if n == 3 else 0) for n in range(1, 6)]
    columns = (
        "group_id string, incarnation int, generation_id int, ts_ms long, before_ts_ms long, after_ts_ms long, silent_ms long, "
        "usual_ms long, rewound long, replayed long, first long, last long"
    )
    found = silence_findings(spark.createDataFrame(rows, columns))
    assert rows_of(found, "group_id", "severity", "cause", "value", "from_ts_ms", "to_ts_ms") == [
        ("habit", "warning", "rewinds_often", 160.0, 9_900, 50_100),
        ("once", "critical", "rewound", 200.0, 29_900, 30_100),
    ]


def test_recovery_ends_when_lag_is_back_at_its_previous_value(spark: SparkSession) -> None:
    commits = table(
        spark, COMMITS, [commit("g", 0, t, n) for t, n in ((5_000, 95), (125_000, 150), (185_000, 396), (245_000, 495))]
    )
    ends = table(spark, LOG_ENDS, [
        *(sample(0, 10_000 + n * 60_000, 100 * (n + 1)) for n in range(5)), sample(0, 20_000, 999, "other"),
    ])  # fmt: skip
    assert rows_of(lag_curve(commits, ends)) == [
        ("g", 60_000, 5, 1), ("g", 120_000, 105, 1), ("g", 180_000, 150, 1), ("g", 240_000, 4, 1), ("g", 300_000, 5, 1),
    ]  # fmt: skip
    rebalances = [
        {"group_id": "g", "ts_ms": ts, "outcome": outcome, "to_generation": n, "reason": "r", "basis": "observed"}
        for n, (ts, outcome) in enumerate(((65_000, "completed"), (66_000, "aborted"), (310_000, "completed")))
    ]
    columns = ("ts_ms", "to_generation", "lag_before", "peak_lag", "recovery_ms", "is_interrupted")
    rows = recovery(table(spark, REBALANCES, rebalances), commits, ends)
    assert rows_of(rows, *columns) == [(65_000, 0, 5, 150, 175_000, False)]
    # When the next comes before lag is back, it is said so.
    rebalances[2]["ts_ms"] = 200_000
    rows = recovery(table(spark, REBALANCES, rebalances), commits, ends)
    assert rows_of(rows, *columns, by=("ts_ms",)) == [
        (65_000, 0, 5, 150, None, True),
        (200_000, 2, 150, 5, 0, False),
    ]
