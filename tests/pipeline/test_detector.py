"""A rebalance that stays open has an alert while it is open, again after twice the time, and when it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kshim_pipeline.detector.stream import alert_records, open_rebalances
from kshim_pipeline.detector.watching import ENDED, NOTHING, OPEN, Alert, Watched, after_events, after_time
from kshim_pipeline.records import RECORDS
from tests.pipeline.model_rows import event, event_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_MS = 60_000
BEN = {"member_id": "ben-1", "instance_id": None, "client_id": "ben", "host": "10.0.0.7", "client_reason": None}
COUNTS = {"expected": 3, "joined": None, "kicked": 0, "pending_sync": None}


def an_event(seq: int, ts_ms: int, kind: str, **fields: Any) -> dict[str, Any]:
    return event(seq, ts_ms, kind, **{"members": COUNTS, "trigger": BEN, "outcome": None, **fields})


def play(watched: Watched, now_ms: int, *events: dict[str, Any]) -> tuple[Watched, list[Alert]]:
    return after_events(watched, events, now_ms=now_ms, open_after_ms=AFTER_MS)


def test_a_rebalance_that_ends_in_time_has_no_alert() -> None:
    watched, alerts = play(
        NOTHING, 5_000, an_event(1, 1_000, "rebalance_started"), an_event(2, 4_000, "join_completed")
    )
    assert (watched.since_ts_ms, watched.phase, watched.due_ms) == (1_000, "SYNC", 61_000)
    watched, ended = play(watched, 6_000, an_event(3, 5_000, "rebalance_completed", outcome="completed"))
    assert alerts + ended == []
    assert watched == NOTHING._replace(run="run1", seq=3, ts_ms=5_000)


def test_an_open_rebalance_has_an_alert_after_the_time_after_twice_the_time_and_at_its_end() -> None:
    watched, _ = play(NOTHING, 1_000, an_event(1, 1_000, "rebalance_started", reason="session_timeout"))
    assert after_time(watched, now_ms=60_999, open_after_ms=AFTER_MS) == (watched, [])
    watched, (first,) = after_time(watched, now_ms=61_000, open_after_ms=AFTER_MS)
    assert first == Alert(OPEN, 61_000, 1_000, 60_000, 1, 1, "JOIN", "session_timeout", "", "ben-1", "ben", "10.0.0.7",
                          3, None, None)  # fmt: skip
    assert watched.due_ms == 121_000
    watched, (second,) = after_time(watched, now_ms=125_000, open_after_ms=AFTER_MS)
    assert (second.type, second.open_ms, watched.due_ms) == (OPEN, 124_000, 241_000)
    watched, (last,) = play(watched, 131_000, an_event(2, 130_000, "rebalance_aborted", outcome="aborted"))
    assert (last.type, last.open_ms, last.outcome, watched.since_ts_ms) == (ENDED, 129_000, "aborted", None)


def test_rebalances_that_supersede_each_other_are_one_and_keep_the_first_reason() -> None:
    watched, alerts = NOTHING, []
    for n in range(4):
        begin = an_event(2 * n + 1, n * 20_000, "rebalance_started", epoch=n + 1, reason=f"reason_{n}")
        end = an_event(2 * n + 2, n * 20_000 + 19_999, "rebalance_aborted", epoch=n + 1, outcome="superseded")
        watched, new = play(watched, n * 20_000 + 19_999, begin, end)
        alerts += new
    (alert,) = alerts
    assert (alert.attempts, alert.epoch, alert.reason, alert.open_ms) == (4, 4, "reason_0", 79_999)


ANN = BEN | {"member_id": "ann-1", "client_id": "ann"}


def of_epochs(seq: int, ts_ms: int, kind: str, **fields: Any) -> dict[str, Any]:
    """An event of a group of the new protocol, as the stream gives it."""
    return an_event(seq, ts_ms, kind, **{"group_type": "consumer", "epoch": 3, **fields})


def a_step(seq: int, ts_ms: int, member: dict[str, Any], state: str) -> dict[str, Any]:
    return of_epochs(seq, ts_ms, "member_reconciled", trigger=member, step_state=state)


def test_an_epoch_that_does_not_settle_has_an_alert_with_who_holds_up_the_revoke() -> None:
    begun = [of_epochs(1, 1_000, "rebalance_started"), of_epochs(2, 2_000, "target_computed")]
    told = [a_step(3, 5_000, ANN, "UnrevokedPartitions"), a_step(4, 6_000, BEN, "UnrevokedPartitions")]
    watched, alerts = play(NOTHING, 6_000, begun[0])
    assert (watched.phase, watched.group_type, alerts) == ("COMPUTE", "consumer", [])
    watched, _ = play(watched, 6_000, begun[1], *told)
    watched, (alert,) = after_time(watched, now_ms=61_000, open_after_ms=AFTER_MS)
    assert (alert.type, alert.phase, alert.group_type) == (OPEN, "REVOKE", "consumer")
    assert (alert.held_by_client_id, alert.held_by_host, alert.held_ms) == ("ann", "10.0.0.7", 56_000)
    watched, _ = play(watched, 70_000, a_step(5, 70_000, ANN, "UnreleasedPartitions"))
    _, (alert,) = after_time(watched, now_ms=121_000, open_after_ms=AFTER_MS)
    assert (alert.held_by_client_id, alert.held_ms) == ("ben", 115_000)


def test_a_member_that_is_gone_holds_up_nothing_and_the_epoch_ends() -> None:
    begun = [of_epochs(1, 1_000, "rebalance_started"), of_epochs(2, 2_000, "target_computed")]
    gone = [a_step(3, 5_000, ANN, "UnrevokedPartitions"), of_epochs(4, 50_000, "member_left", trigger=ANN)]
    again = [
        of_epochs(5, 50_000, "rebalance_aborted", outcome="superseded"),
        of_epochs(6, 50_000, "rebalance_started", epoch=4),
        of_epochs(7, 51_000, "target_computed", epoch=4),
    ]
    watched, _ = play(NOTHING, 60_000, *begun, *gone, *again)
    watched, (alert,) = after_time(watched, now_ms=61_000, open_after_ms=AFTER_MS)
    assert (alert.phase, alert.attempts, alert.epoch, alert.held_by_member_id, alert.held_ms) == (
        "ASSIGN",
        2,
        4,
        None,
        None,
    )
    _, (ended,) = play(watched, 65_000, of_epochs(8, 65_000, "rebalance_completed", outcome="completed"))
    assert (ended.type, ended.outcome, ended.held_by_member_id) == (ENDED, "completed", None)


def test_duplicate_events_change_nothing_and_another_run_ends_the_rebalance() -> None:
    begin = an_event(5, 1_000, "rebalance_started")
    watched, alerts = play(NOTHING, 70_000, begin)
    assert [alert.type for alert in alerts] == [OPEN]
    assert play(watched, 70_000, begin, an_event(4, 900, "rebalance_completed", outcome="completed")) == (watched, [])
    loaded = an_event(1, 80_000, "coordinator_loaded", run="run2", trigger=None)
    watched, (ended,) = play(watched, 80_000, loaded)
    assert (ended.type, ended.outcome, watched.run) == (ENDED, "cut_off", "run2")
    assert play(watched, 90_000, an_event(9, 79_000, "rebalance_started")) == (watched, [])


@pytest.mark.timeout(120)
def test_spark_keeps_the_state_of_a_group_and_writes_alerts_when_its_timeout_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Group g, with two events, has been open for long when it is seen; h comes to it while nothing happens."""
    now_ms = int(time.time() * 1000)
    source = tmp_path / "records"

    def write(*rows: dict[str, Any]) -> None:
        event_records(spark, *rows).coalesce(1).write.mode("append").parquet(str(source))

    write(
        an_event(1, now_ms - 90_000, "rebalance_started"),
        an_event(0, now_ms - 95_000, "rebalance_completed", event_id="g-0", outcome="completed"),
        an_event(2, now_ms - 59_000, "rebalance_started", group="h", event_id="h-1", trigger=None),
        {**an_event(3, now_ms, "rebalance_started"), "v": 9},
    )
    alerts = open_rebalances(spark.readStream.schema(RECORDS).parquet(str(source)), open_after_ms=AFTER_MS)
    query = (
        alerts.writeStream.format("memory").queryName("alerts").outputMode("append")
        .trigger(processingTime="200 milliseconds")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    try:
        first, second = _until(spark, query, OPEN, "g", "h")
        assert (first.type, first.attempts, first.trigger_client_id, first.expected) == (OPEN, 1, "ben", 3)
        assert first.open_ms >= 90_000
        assert (second.type, second.trigger_client_id, second.open_ms >= 60_000) == (OPEN, None, True)
        write(an_event(4, now_ms, "rebalance_completed", outcome="completed"))
        (ended,) = _until(spark, query, ENDED, "g")
        assert (ended.type, ended.open_ms, ended.outcome) == (ENDED, 90_000, "completed")
        (record,) = alert_records(spark.table("alerts").where("type = 'rebalance_ended'")).collect()
    finally:
        query.stop()
    assert bytes(record.key) == b"g"
    assert bytes(record.value).startswith(b'{"v":1,"group":"g","type":"rebalance_ended","at_ms":')
    assert b'"pending_sync":null,"outcome":"completed"' in bytes(record.value)


def _until(spark: SparkSession, query: Any, kind: str, *groups: str) -> list[Any]:
    """The first alert of this type about each group, once there are all; ends by the test's timeout."""
    while True:
        # Not processAllAvailable: with timeouts by the clock there is always another batch to come.
        assert not query.awaitTermination(0.1)
        rows = spark.table("alerts").where(f"type = '{kind}'").orderBy("at_ms").collect()
        found = {row.group: row for row in reversed(rows)}
        if set(groups) <= found.keys():
            return [found[group] for group in groups]
