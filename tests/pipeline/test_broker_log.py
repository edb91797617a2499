"""Lines of a real Kafka 4.4 and of kshim become rows."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from kshim.explain.sources.log_lines import parse_line
from kshim_pipeline.errors import PipelineError
from kshim_pipeline.inputs.broker_log import read_broker_log
from kshim_pipeline.schemas import LOG_LINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = ZoneInfo("UTC")
KAFKA = Path(__file__).parent / "golden" / "kafka-4.4.0-groups.log"
AT = "[2026-11-21 10:00:00,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
AT_MS = 1_795_255_200_123


def parsed(message: str) -> dict[str, Any]:
    """The columns of a line, without its time, which is the same in all."""
    row = parse_line(AT + message, UTC)
    assert row is not None, message
    assert row.pop("ts_ms") == AT_MS
    return row


def test_every_line_of_a_real_coordinator_but_the_one_without_a_group_is_read() -> None:
    """Six incidents on a live 4.4: joins, a leave, a kill, a slow poll, a static restart, static members that stop."""
    lines = KAFKA.read_text().splitlines()
    kinds = Counter(None if (row := parse_line(line, UTC)) is None else row["type"] for line in lines)
    assert kinds == {
        "preparing": 11,
        "stabilized": 8,
        "assignment_received": 8,
        "member_created": 8,
        "member_added": 6,
        "member_left": 5,
        "member_failed": 3,
        "emptied": 3,
        "static_replaced": 1,
        None: 1,
    }


def test_a_preparing_line_has_the_reason() -> None:
    assert parsed(
        "Preparing to rebalance group my group in state PreparingRebalance with old generation 2 (reason: Adding new member "
        "c-1 with group instance id null; client reason: rebalance (again)). "
        "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
    ) == {
        "type": "preparing",
        "group_id": "my group",
        "state": "PreparingRebalance",
        "generation_id": 2,
        "reason_text": "Adding new member c-1 with group instance id null; client reason: rebalance (again)",
        "client_reason": "rebalance (again)",
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Stabilized group g generation 3 with 2 members.", {"type": "stabilized", "generation_id": 3, "members": 2}),
        (
            "Assignment received from leader l-1 for group g for generation 3. The group has 2 members, 1 of which are "
            "static. (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            {"type": "assignment_received", "generation_id": 3, "members": 2, "member_id": "l-1"},
        ),
        (
            "[Group g] Member m-1 has left group through explicit `LeaveGroup` request; client reason: not provided",
            {"type": "member_left", "member_id": "m-1"},
        ),
        (
            "Group g removed members who haven't sent their sync requests: [m-1, m-2]",
            {
                "type": "members_removed",
                "member_ids": ["m-1", "m-2"],
                "reason_text": "members who haven't sent their sync requests",
            },
        ),
        (
            "Pending member m-1 in group g has been removed after session timeout expiration.",
            {"type": "members_removed", "member_ids": ["m-1"], "reason_text": "after session timeout expiration"},
        ),
    ],
)
def test_lines_of_kafka(message: str, expected: dict[str, Any]) -> None:
    assert parsed(message) == {"group_id": "g"} | expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Dynamic member with unknown member id joins group g in Empty state. Created a new member id m-1 and "
            "requesting the member to rejoin with this id. (client c at 10.0.0.1)",
            {
                "type": "member_created",
                "member_id": "m-1",
                "client_id": "c",
                "client_host": "10.0.0.1",
                "state": "Empty",
            },
        ),
        (
            "Pending dynamic member with id m-1 joins group g in Stable state. Adding to the group now. (client c at 10.0.0.1)",
            {
                "type": "member_added",
                "member_id": "m-1",
                "client_id": "c",
                "client_host": "10.0.0.1",
                "state": "Stable",
            },
        ),
        (
            "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Replacing previously "
            "mapped member m-1 with this groupInstanceId. (client c at 10.0.0.1, new member id m-2)",
            {
                "type": "static_replaced",
                "group_instance_id": "i",
                "member_id": "m-1",
                "client_id": "c",
                "client_host": "10.0.0.1",
                "state": "Stable",
            },
        ),
        (
            "Member m-1 in group g has been removed (rebalance-timeout)",
            {"type": "members_removed", "member_ids": ["m-1"], "reason_text": "rebalance-timeout"},
        ),
    ],
)
def test_lines_of_kshim(message: str, expected: dict[str, Any]) -> None:
    assert parsed(message) == {"group_id": "g"} | expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        AT + "Starting up.",
        AT + "Finished loading of metadata from __consumer_offsets-3 with epoch 0 for group coordinator",
        "Stabilized group g generation 3 with 2 members.",
    ],
)
def test_other_lines_are_skipped(line: str) -> None:
    assert parse_line(line, UTC) is None


def test_times_are_those_of_the_brokers_zone() -> None:
    line = AT + "Group g with generation 3 is now empty."
    there, here = parse_line(line, ZoneInfo("America/New_York")), parse_line(line, UTC)
    assert there is not None
    assert here is not None
    assert there["ts_ms"] - here["ts_ms"] == 5 * 3_600_000


def test_files_become_the_table_with_the_number_of_each_line(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "server.log").write_text(f"other\n{AT}Stabilized group g generation 3 with 2 members.\n")
    with gzip.open(tmp_path / "server.log.1.gz", "wt") as old:
        old.write(f"{AT}Group g with generation 2 is now empty.\n")
    found = read_broker_log(spark, [str(tmp_path / "server.log*")])
    assert found.schema == LOG_LINES
    rows = [(row.type, row.ts_ms, row.evidence.topic, row.evidence.offset) for row in found.orderBy("type").collect()]
    assert rows == [("emptied", AT_MS, "log", 1), ("stabilized", AT_MS, "log", 2)]


def test_lines_about_the_broker_and_about_members_that_were_fenced_are_in_the_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    fenced = (
        "Request memberId=old for static member with groupInstanceId=i is fenced by existing memberId=new "
        "during operation heartbeat"
    )
    stops = "[BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN"
    (tmp_path / "server.log").write_text(f"{AT}{fenced}\n{AT}{stops}\n")
    rows = read_broker_log(spark, [str(tmp_path / "server.log")]).orderBy("type").collect()
    assert [(row.type, row.group_id, row.member_id, row.owner_id) for row in rows] == [
        ("static_fenced", None, "old", "new"),
        ("stopping", None, None, None),
    ]


def test_a_missing_file_or_zone_is_named(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"No such file: .*none\.log"):
        read_broker_log(spark, [str(tmp_path / "none.log")])
    with pytest.raises(PipelineError, match="unknown time zone Mars"):
        read_broker_log(spark, [str(KAFKA)], time_zone="Mars")
