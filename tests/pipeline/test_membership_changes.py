"""What the members of a group did, read from memberships."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from kshim_pipeline.schemas import GENERATIONS, MEMBERSHIPS
from kshim_pipeline.what_if.changes import Change
from kshim_pipeline.what_if.membership_changes import GroupChanges, changes_of_group, of_group, rows_that_tell

OPTIONAL = {
    "group_instance_id": None,
    "client_id": "app",
    "client_host": "10.0.0.1",
    "left_reason": None,
    "session_timeout_ms": 45_000,
    "partitions": None,
}


def row(ts_ms: int, change: str, owner: str = "", **fields: Any) -> Any:
    return SimpleNamespace(ts_ms=ts_ms, change=change, owner=owner, **(OPTIONAL | fields))


def test_a_member_that_leaves_and_rejoins_from_the_same_host_was_restarted() -> None:
    found = changes_of_group(
        [
            row(0, "partitions", partitions=4),
            row(0, "joined", "m1"),
            row(0, "joined", "m2", client_host="10.0.0.2"),
            row(60_000, "left", "m1"),
            row(65_000, "joined", "m3"),
            row(90_000, "left", "m3"),
        ]
    )
    assert found == [
        Change(0, "partitions", partitions=4),
        Change(0, "join", "m1"),
        Change(0, "join", "m2"),
        Change(60_000, "restart", "m1", away_ms=5_000),
        Change(90_000, "leave", "m1"),
    ]


def test_a_member_of_another_host_or_much_later_is_a_new_one() -> None:
    found = changes_of_group(
        [
            row(0, "joined", "m1"),
            row(10_000, "left", "m1"),
            row(12_000, "joined", "m2", client_host="10.0.0.9"),
            row(1_000_000, "joined", "m3"),
        ]
    )
    assert [change.kind for change in found] == ["join", "leave", "join", "join"]


def test_a_crash_began_a_session_before_it_was_noticed() -> None:
    found = changes_of_group([row(0, "joined", "m1"), row(100_000, "left", "m1", left_reason="session_timeout")])
    assert found[-1] == Change(55_000, "crash", "m1")


def test_a_static_member_under_a_new_id_was_restarted_without_being_away() -> None:
    static = {"group_instance_id": "i1"}
    found = changes_of_group([row(0, "joined", "i1", **static), row(5_000, "replaced", "i1", **static)])
    assert found[-1] == Change(5_000, "restart", "i1", away_ms=0)


def test_a_fleet_of_memberships_becomes_changes_with_the_times_of_each_group(spark: SparkSession) -> None:
    def membership(group: str, ts_ms: int, change: str, member: str, **fields: Any) -> dict[str, Any]:
        base = dict.fromkeys(MEMBERSHIPS.fieldNames())
        known = {
            "group_id": group,
            "group_type": "classic",
            "incarnation": 0,
            "generation_id": 1,
            "member_id": member,
            "owner": member,
        }
        return base | known | {"ts_ms": ts_ms, "change": change, "source": "events", "client_id": "app"} | fields

    def generation(group: str, ts_ms: int, partitions: int) -> dict[str, Any]:
        base = dict.fromkeys(GENERATIONS.fieldNames())
        known = {
            "group_id": group,
            "group_type": "classic",
            "incarnation": 0,
            "generation_id": 1,
            "ordinal": 0,
            "state": "Stable",
        }
        return base | known | {"ts_ms": ts_ms, "partitions": partitions, "members": 1, "source": "events"}

    memberships = spark.createDataFrame(
        [
            membership("g1", 0, "joined", "a", session_timeout_ms=10_000),
            membership("g1", 500, "kept", "a", join_wait_ms=1_900),
            membership("g1", 20_000, "left", "a", left_reason="session_timeout", session_timeout_ms=10_000),
            membership("g2", 7, "joined", "b"),
        ],
        MEMBERSHIPS,
    )
    generations = spark.createDataFrame([generation("g1", 0, 6), generation("g1", 500, 6)], GENERATIONS)
    rows = [row.asDict() for row in rows_that_tell(memberships, generations).collect()]
    one, other = (of_group([row for row in rows if row["group_id"] == group]) for group in ("g1", "g2"))
    assert one.changes == [
        Change(0, "partitions", partitions=6),
        Change(0, "join", "a"),
        Change(10_000, "crash", "a"),
    ]
    assert (one.session_timeout_ms, one.poll_ms) == (10_000, 400)
    assert other == GroupChanges("g2", [Change(7, "join", "b")], None, None)
