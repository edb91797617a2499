"""Records of groups of the new protocol -> the tables of the model. The numbers were computed by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from kshim_pipeline.decode.rows import decode_row
from kshim_pipeline.materialize import by_workers
from kshim_pipeline.model.build import build
from kshim_pipeline.model.epoch_history import EpochHistory, in_order
from kshim_pipeline.records import DECODED
from kshim_pipeline.schemas import MIGRATIONS, OWNERSHIP, REBALANCES, TABLES
from tests.pipeline.model_rows import (
    TOPIC_ID,
    commit_record,
    decoded,
    epoch_record,
    group_epoch,
    group_record,
    group_tombstone,
    member,
    member_wish,
    rows_of,
    step,
    target,
)
from tests.protocol import golden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]

A_ALONE: Rows = [
    member_wish(10, 1_000, "a"),
    group_epoch(11, 1_000, 2),
    *target(12, 1_000, 2, a=(0, 1, 2)),
    step(14, 1_000, "a", 2, (0, 1, 2)),
]
B_JOINS: Rows = [
    member_wish(20, 10_000, "b"),
    group_epoch(21, 10_000, 3),
    *target(22, 11_200, 3, a=(0, 1), b=(2,)),
    step(25, 11_200, "b", 3, (), state="UnreleasedPartitions"),
    step(26, 13_000, "a", 2, (0, 1), to_revoke=(2,)),
    step(27, 18_000, "a", 3, (0, 1)),
    step(28, 19_500, "b", 3, (2,)),
]
A_LEAVES: Rows = [
    epoch_record(30, 30_000, 8, member_id="a"),
    epoch_record(31, 30_000, 7, member_id="a"),
    epoch_record(32, 30_000, 5, member_id="a"),
    group_epoch(33, 30_000, 4),
    *target(34, 30_000, 4, b=(0, 1, 2)),
    step(36, 31_000, "b", 4, (0, 1, 2)),
]
HISTORY: Rows = [
    *A_ALONE,
    commit_record(19, 2_000, 0, 5, committed_topic_id=bytes.fromhex(TOPIC_ID)),
    *B_JOINS,
    *A_LEAVES,
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    """The model of the history of g and of the migration of m, shuffled, a third of it delivered twice."""
    rows = HISTORY + HISTORY[::3] + [row | {"group_id": "m"} for row in (*UPGRADE, *DOWNGRADE)]
    random.Random(5).shuffle(rows)
    materialize = by_workers(lambda _: None)
    built = build(spark, materialize("", decoded(spark, *rows)), materialize=materialize)
    return {name: materialize(name, table) for name, table in built.items()}


def of(tables: dict[str, DataFrame], name: str, group_id: str = "g") -> DataFrame:
    return tables[name].where(F.col("group_id") == group_id)


def history_of(rows: Rows, topics: Mapping[str, str] | None = None) -> EpochHistory:
    """Without Spark: rows as Spark gives them, with nulls."""
    names = ("generation_id", "member_ids", "epoch", "metadata_hash", "member_id", "member_state", "owned", "to_revoke")
    empty = dict.fromkeys((*names, "wish", "key_type"))
    found = EpochHistory(topics or {})
    last_ms = 0
    of_group = (row for row in rows if row["kind"] != "offset_commit")
    for row in in_order(empty | row | _ids(row) for row in of_group):
        found.add(row if row["wish"] is None else {**row, "wish": _NO_WISH | row["wish"]})
        last_ms = row["timestamp_ms"]
    found.finish(last_ms)
    return found


_NO_WISH = dict.fromkeys(("rack_id", "server_assignor", "session_timeout_ms"))


def _ids(row: dict[str, Any]) -> dict[str, Any]:
    return {"member_ids": [each["member_id"] for each in row["members"]]} if row.get("members") is not None else {}


def test_an_epoch_is_a_rebalance_with_the_phases_compute_revoke_and_assign(tables: dict[str, DataFrame]) -> None:
    table = of(tables, "rebalances")
    assert table.schema.names == REBALANCES.names
    columns = ("group_type", "from_generation", "to_generation", "ts_ms", "ended_ts_ms", "outcome", "reason",
               "trigger.member_id", "came", "went", "joined", "compute_ms", "revoke_ms", "assign_ms", "total_ms",
               "unowned_ms", "unowned_partition_ms", "basis")  # fmt: skip
    assert rows_of(table, *columns, by=("ts_ms",)) == [
        ("consumer", None, 2, 1_000, 1_000, "completed", "member_joined", "a", 1, 0, 1, 0, 0, 0, 0, 0, 0, "inferred"),
        ("consumer", 2, 3, 10_000, 19_500, "completed", "member_joined", "b", 1, 0, 2, 1_200, 6_800, 1_500, 9_500,
         1_500, 1_500, "inferred"),
        ("consumer", 3, 4, 30_000, 31_000, "completed", "member_gone", "a", 0, 1, 1, 0, 0, 1_000, 1_000,
         1_000, 2_000, "inferred"),
    ]  # fmt: skip


def test_a_rebalance_names_who_gave_up_partitions_last_and_who_was_last_at_the_target(
    tables: dict[str, DataFrame],
) -> None:
    last = ("to_generation", "last_to_revoke.member_id", "last_to_revoke.client_host", "last_to_revoke.is_new",
            "last_to_revoke.wait_ms", "last_to_assign.member_id", "last_to_assign.is_new", "last_to_assign.wait_ms")  # fmt: skip
    assert rows_of(of(tables, "rebalances").where("to_generation = 3").select(*last)) == [
        (3, "a", "host-a", False, 6_800, "b", True, 8_300)
    ]


def test_a_target_is_a_generation_with_its_members(tables: dict[str, DataFrame]) -> None:
    columns = (
        "group_type",
        "generation_id",
        "ordinal",
        "state",
        "ts_ms",
        "until_ts_ms",
        "members",
        "partitions",
        "missed",
    )
    assert rows_of(of(tables, "generations"), *columns, by=("generation_id",)) == [
        ("consumer", 2, 0, "Stable", 1_000, 11_200, 1, 3, None),
        ("consumer", 3, 1, "Stable", 11_200, 30_000, 2, 3, 0),
        ("consumer", 4, 2, "Stable", 30_000, None, 1, 3, 0),
    ]
    who = ("group_type", "generation_id", "member_id", "client_host", "change", "partitions")
    assert rows_of(of(tables, "memberships"), *who, by=("generation_id", "member_id")) == [
        ("consumer", 2, "a", "host-a", "joined", 3),
        ("consumer", 3, "a", "host-a", "kept", 2),
        ("consumer", 3, "b", "host-b", "joined", 1),
        ("consumer", 4, "a", "host-a", "left", None),
        ("consumer", 4, "b", "host-b", "kept", 3),
    ]


def test_ownership_shows_gaps_in_which_nobody_had_a_partition(tables: dict[str, DataFrame]) -> None:
    assert tables["ownership"].schema.names == OWNERSHIP.names
    columns = ("topic", "partition", "owner", "from_generation", "to_generation", "from_ts_ms", "to_ts_ms",
               "previous_owner", "unowned_ms")  # fmt: skip
    assert rows_of(of(tables, "ownership"), *columns, by=("partition", "from_ts_ms")) == [
        ("t", 0, "a", 2, 3, 1_000, 30_000, None, None),
        ("t", 0, "b", 4, 4, 31_000, None, "a", 1_000),
        ("t", 1, "a", 2, 3, 1_000, 30_000, None, None),
        ("t", 1, "b", 4, 4, 31_000, None, "a", 1_000),
        ("t", 2, "a", 2, 2, 1_000, 18_000, None, None),
        ("t", 2, "b", 3, 4, 19_500, None, "a", 1_500),
    ]


def test_commits_are_of_the_epoch_whose_target_was_the_latest(tables: dict[str, DataFrame]) -> None:
    assert rows_of(of(tables, "commits"), "partition", "committed_offset", "generation_id") == [(0, 5, 2)]
    assert of(tables, "migrations").isEmpty()
    assert tables.keys() == TABLES.keys() - {"records", "log_lines", "log_ends", "share_state", "findings", "incidents"}


def test_an_epoch_that_rises_again_is_superseded() -> None:
    rows = [*A_ALONE, *B_JOINS[:7], member_wish(40, 14_000, "c"), group_epoch(41, 14_000, 4)]
    found = history_of(rows).rebalances
    assert [(row["to_generation"], row["outcome"], row["total_ms"]) for row in found] == [
        (2, "completed", 0),
        (3, "superseded", 4_000),
        (4, "open", None),
    ]
    assert (found[1]["compute_ms"], found[1]["revoke_ms"], found[1]["assign_ms"]) == (1_200, 2_800, None)
    assert found[1]["last_to_revoke"]["member_id"] == "a"  # it still holds what it is to give up


def test_a_member_that_holds_on_for_its_rebalance_timeout_was_removed_for_that() -> None:
    rows = [
        *A_ALONE,
        *B_JOINS[:7],
        epoch_record(40, 313_000, 8, member_id="a"),
        epoch_record(41, 313_000, 5, member_id="a"),
        group_epoch(42, 313_000, 4),
    ]
    last = history_of(rows).rebalances[-1]
    assert (last["reason"], last["trigger"]["member_id"], last["went"]) == ("rebalance_timeout", "a", 1)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([member_wish(40, 40_000, "b", "t", "u")], "subscription_changed"),
        ([epoch_record(40, 40_000, 16, topics=["t"])], "expression_resolved"),
        ([], "topics_changed"),
    ],
)
def test_the_reason_of_an_epoch_is_what_changed_before_it(records: Rows, reason: str) -> None:
    found = history_of([*HISTORY, *records, group_epoch(41, 40_000, 5, metadata_hash=2)]).rebalances
    assert (found[-1]["to_generation"], found[-1]["reason"]) == (5, reason)


def test_the_last_member_to_leave_ends_the_rebalance_that_it_begins() -> None:
    rows = [
        *A_ALONE,
        epoch_record(40, 5_000, 8, member_id="a"),
        epoch_record(41, 5_000, 5, member_id="a"),
        group_epoch(42, 5_000, 3),
        *target(43, 5_000, 3),
    ]
    found = history_of(rows)
    assert [(row["outcome"], row["reason"]) for row in found.rebalances[1:]] == [("aborted", "member_gone")]
    assert [len(each["members"]) for each in found.snapshots] == [1, 0]


def test_a_static_member_that_is_replaced_raises_no_epoch_and_leaves_a_gap() -> None:
    static = {"group_instance_id": "s"}
    rows = [
        member_wish(10, 1_000, "s1", **static),
        group_epoch(11, 1_000, 2),
        *target(12, 1_000, 2, s1=(0, 1)),
        step(14, 1_000, "s1", 2, (0, 1)),
        step(15, 5_000, "s1", -2, (0, 1)),
        epoch_record(20, 9_000, 8, member_id="s1"),
        epoch_record(21, 9_000, 7, member_id="s1"),
        epoch_record(22, 9_000, 5, member_id="s1"),
        member_wish(23, 9_000, "s2", **static),
        epoch_record(24, 9_000, 7, member_id="s2", owned=[{"topic_id": TOPIC_ID, "partitions": [0, 1]}]),
        step(25, 9_000, "s2", 2, (0, 1)),
    ]
    found = history_of(rows)
    assert len(found.rebalances) == 1
    assert [[each["member_id"] for each in one["members"]] for one in found.snapshots] == [["s1"], ["s2"]]
    back = [row for row in found.intervals if row["member_id"] == "s2"]
    assert {(row["owner"], row["previous_owner"], row["unowned_ms"]) for row in back} == {("s", "s", 4_000)}


def test_a_history_of_kafka_shows_the_same_as_it_was_played() -> None:
    """Ben joins Ann, who is slow, and is killed; Kim's classic group goes over when Leo joins, and back when he leaves."""
    golden_records = golden.load("new_protocol.json")["records"]
    rows = [_decoded(*record) for record in golden_records]
    names = {"38815023aeab4131aa04c6dcc6a22558": "orders"}
    epochs, moved = (
        history_of([row for row in rows if row["group_id"] == group], names) for group in ("epochs", "moved")
    )
    told = [
        (row["reason"], row["trigger"]["client_id"], row["outcome"], row["came"], row["went"])
        for row in epochs.rebalances
    ]
    assert told == [
        ("member_joined", "ann", "completed", 1, 0),
        ("member_joined", "ben", "completed", 1, 0),
        ("member_gone", "ben", "completed", 0, 1),
        ("member_gone", "ann", "aborted", 0, 1),
    ]
    joined = epochs.rebalances[1]
    assert (joined["compute_ms"], joined["revoke_ms"], joined["assign_ms"], joined["total_ms"]) == (0, 1_965, 25, 1_990)
    assert (joined["last_to_revoke"]["client_id"], joined["unowned_ms"], joined["unowned_partition_ms"]) == (
        "ann",
        25,
        75,
    )
    assert {(row["topic"], row["unowned_ms"]) for row in epochs.intervals if row["client_id"] == "ben"} == {
        ("orders", 25)
    }
    assert [(row["from_type"], row["to_type"], row["trigger"]["client_id"]) for row in moved.migrations] == [
        ("classic", "consumer", "leo"),
        ("consumer", "classic", "leo"),
    ]
    assert [row["offset"] for row in moved.conversions] == [94]
    assert [row["outcome"] for row in moved.rebalances] == ["completed"]


def _decoded(partition: int, offset: int, ts_ms: int, key: str, value: str | None) -> dict[str, Any]:
    row = dict.fromkeys(DECODED.names) | decode_row(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    return row | {"topic": "__consumer_offsets", "partition": partition, "offset": offset, "timestamp_ms": ts_ms}


UPGRADE: Rows = [
    group_record(10, 1_000, 5, member("a", 0, 1)),
    group_tombstone(11, 60_000),
    member_wish(12, 60_000, "a", session_timeout_ms=45_000),
    group_epoch(13, 60_000, 5),
    *target(14, 60_000, 5, a=(0, 1)),
    step(16, 60_000, "a", 5, (0, 1)),
    member_wish(17, 60_000, "b"),
    group_epoch(18, 60_000, 6),
    *target(19, 60_000, 6, a=(0,), b=(1,)),
    step(22, 60_000, "b", 6, (), state="UnreleasedPartitions"),
    step(23, 63_000, "a", 5, (0,), to_revoke=(1,)),
    step(24, 64_000, "a", 6, (0,)),
    step(25, 65_000, "b", 6, (1,)),
]
DOWNGRADE: Rows = [
    *(epoch_record(30 + at, 90_000, key_type, member_id="b") for at, key_type in enumerate((8, 7, 5))),
    *(epoch_record(33 + at, 90_000, key_type, member_id="a") for at, key_type in enumerate((8, 7))),
    epoch_record(35, 90_000, 6),
    epoch_record(36, 90_000, 5, member_id="a"),
    epoch_record(37, 90_000, 3),
    group_record(38, 90_000, 6, member("a", 0)),
    group_record(39, 93_000, 7, member("a", 0, 1)),
]


def test_a_migration_is_a_row_there_and_back(tables: dict[str, DataFrame]) -> None:
    assert tables["migrations"].schema.names == MIGRATIONS.names
    columns = ("ts_ms", "from_type", "to_type", "generation_id", "members", "trigger.member_id", "basis")
    assert rows_of(tables["migrations"], *columns, by=("ts_ms",)) == [
        (60_000, "classic", "consumer", 5, 1, "b", "inferred"),
        (90_000, "consumer", "classic", 6, 1, "b", "inferred"),
    ]


def test_a_group_that_goes_over_keeps_its_incarnation_and_its_members(tables: dict[str, DataFrame]) -> None:
    assert rows_of(
        of(tables, "generations", "m"), "ordinal", "incarnation", "group_type", "generation_id", "ended_as"
    ) == [
        (0, 0, "classic", 5, "generation"),
        (1, 0, "consumer", 6, "generation"),
        (2, 0, "classic", 7, None),
    ]
    assert rows_of(
        of(tables, "memberships", "m"), "generation_id", "member_id", "change", by=("generation_id", "member_id")
    ) == [
        (5, "a", "joined"),
        (6, "a", "kept"),
        (6, "b", "joined"),
        (6, "b", "left"),  # the classic group begins with generation 6, too
        (7, "a", "kept"),
    ]
    kinds = ("ts_ms", "group_type", "from_generation", "to_generation", "reason")
    assert rows_of(of(tables, "rebalances", "m"), *kinds, by=("ts_ms",)) == [
        (1_000, "classic", None, 5, "unknown"),
        (60_000, "consumer", 5, 6, "member_joined"),
        (93_000, "classic", 6, 7, "unknown"),
    ]


def test_a_group_that_is_deleted_and_made_again_has_another_incarnation() -> None:
    rows = [
        *A_ALONE,
        epoch_record(20, 5_000, 3),
        *({**row, "offset": row["offset"] + 20, "timestamp_ms": 9_000} for row in A_ALONE),
    ]
    found = history_of(rows)
    assert [row["is_tombstone"] for row in found.snapshots] == [False, True, False]
    assert {row["incarnation"] for row in found.intervals if row["from_ts_ms"] == 9_000} == {1}
    assert not found.migrations
