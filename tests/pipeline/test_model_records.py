"""Records -> generations, memberships, ownership, commits. The numbers were computed by hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from kshim_pipeline.model.commits import commits
from kshim_pipeline.model.generations import generations
from kshim_pipeline.model.memberships import memberships
from kshim_pipeline.model.ownership import ownership
from kshim_pipeline.model.snapshots import snapshots
from kshim_pipeline.schemas import COMMITS, GENERATIONS, MEMBERSHIPS, OWNERSHIP
from tests.pipeline.model_rows import commit_record, decoded, group_record, group_tombstone, member, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATIC = {"group_instance_id": "s"}
HISTORY: list[dict[str, Any]] = [
    group_record(10, 1_000, 0, protocol_type=""),
    commit_record(11, 1_100, 0, 5),
    group_record(12, 2_000, 1, member("a", 0, 1, 2)),
    commit_record(13, 2_500, 0, 9),
    # b comes and takes 2; generations 2 and 3 never stored an assignment.
    group_record(14, 5_000, 4, member("a", 0, 1), member("b", 2)),
    # s is static, takes 1 from a; b keeps 2.
    group_record(15, 8_000, 5, member("a", 0), member("b", 2), member("s-1", 1, **STATIC)),
    # s came back under another id, the generation stays.
    group_record(16, 9_000, 5, member("a", 0), member("b", 2), member("s-2", 1, **STATIC)),
    commit_record(17, 9_500, 1, None),
    # a is gone: 0 goes to b, and nobody is given 2 for now.
    group_record(18, 12_000, 6, member("b", 0), member("s-2", 1, **STATIC)),
    group_record(19, 15_000, 7, member("b", 0, 2), member("s-2", 1, **STATIC)),
    group_record(20, 20_000, 8),
    group_tombstone(21, 30_000),
    group_record(22, 40_000, 0, protocol_type=""),
    group_record(23, 41_000, 1, member("c", 0, 1, 2)),
]  # fmt: skip


@pytest.fixture(scope="module")
def history(spark: SparkSession) -> DataFrame:
    """The history above, shuffled, a third of it delivered twice."""
    rows = HISTORY + HISTORY[::3]
    random.Random(5).shuffle(rows)
    return decoded(spark, *rows).cache()


def test_a_generation_is_a_row_with_what_came_before_and_after_it(history: DataFrame) -> None:
    table = generations(snapshots(history))
    assert table.schema.names == GENERATIONS.names
    columns = ("incarnation", "generation_id", "ordinal", "state", "ts_ms", "sync_ms", "until_ts_ms", "ended_as",
               "leader_id", "members", "partitions", "previous_partitions", "missed", "evidence")  # fmt: skip

    def at(offset: int) -> tuple[str, int, int]:
        return ("__consumer_offsets", 7, offset)

    assert rows_of(table, *columns, by=("ordinal",)) == [
        (0, 0, 0, "Empty", 1_000, None, 2_000, "generation", None, 0, 0, None, None, at(10)),
        (0, 1, 1, "Stable", 2_000, 10, 5_000, "generation", "a", 1, 3, 0, 0, at(12)),
        (0, 4, 2, "Stable", 5_000, 10, 8_000, "generation", "a", 2, 3, 3, 2, at(14)),
        (0, 5, 3, "Stable", 8_000, 10, 12_000, "generation", "a", 3, 3, 3, 0, at(15)),
        (0, 6, 4, "Stable", 12_000, 10, 15_000, "generation", "b", 2, 2, 3, 0, at(18)),
        (0, 7, 5, "Stable", 15_000, 10, 20_000, "generation", "b", 2, 3, 2, 0, at(19)),
        (0, 8, 6, "Empty", 20_000, None, 30_000, "deleted", None, 0, 0, 3, 0, at(20)),
        (1, 0, 7, "Empty", 40_000, None, 41_000, "generation", None, 0, 0, 0, None, at(22)),
        (1, 1, 8, "Stable", 41_000, 10, None, None, "c", 1, 3, 0, 0, at(23)),
    ]


def test_a_membership_shows_who_joined_stayed_was_replaced_and_left(history: DataFrame) -> None:
    table = memberships(snapshots(history))
    assert table.schema.names == MEMBERSHIPS.names
    columns = ("incarnation", "generation_id", "ts_ms", "member_id", "owner", "change", "replaced_member_id",
               "is_leader", "partitions")  # fmt: skip
    assert rows_of(table, *columns, by=("ts_ms", "member_id", "change")) == [
        (0, 1, 2_000, "a", "a", "joined", None, True, 3),
        (0, 4, 5_000, "a", "a", "kept", None, True, 2),
        (0, 4, 5_000, "b", "b", "joined", None, False, 1),
        (0, 5, 8_000, "a", "a", "kept", None, True, 1),
        (0, 5, 8_000, "b", "b", "kept", None, False, 1),
        (0, 5, 8_000, "s-1", "s", "joined", None, False, 1),
        (0, 5, 9_000, "s-2", "s", "replaced", "s-1", False, 1),
        (0, 6, 12_000, "a", "a", "left", None, None, None),
        (0, 6, 12_000, "b", "b", "kept", None, True, 1),
        (0, 6, 12_000, "s-2", "s", "kept", None, False, 1),
        (0, 7, 15_000, "b", "b", "kept", None, True, 2),
        (0, 7, 15_000, "s-2", "s", "kept", None, False, 1),
        (0, 8, 20_000, "b", "b", "left", None, None, None),
        (0, 8, 20_000, "s-2", "s", "left", None, None, None),
        (1, 1, 41_000, "c", "c", "joined", None, True, 3),
    ]
    (host,) = table.where("member_id = 'c'").select("client_host", "session_timeout_ms", "source").collect()
    assert tuple(host) == ("host-c", 45_000, "records")


def test_ownership_is_an_interval_for_each_owner_of_a_partition(history: DataFrame) -> None:
    table = ownership(snapshots(history))
    assert table.schema.names == OWNERSHIP.names
    columns = ("partition", "owner", "member_id", "from_generation", "to_generation", "generations", "from_ts_ms",
               "to_ts_ms", "previous_owner", "unowned_ms")  # fmt: skip
    assert rows_of(table, *columns, by=("partition", "from_ts_ms")) == [
        (0, "a", "a", 1, 5, 3, 2_000, 12_000, None, None),
        (0, "b", "b", 6, 7, 2, 12_000, 20_000, "a", 0),
        (0, "c", "c", 1, 1, 1, 41_000, None, "b", 21_000),
        (1, "a", "a", 1, 4, 2, 2_000, 8_000, None, None),
        (1, "s", "s-1", 5, 7, 3, 8_000, 20_000, "a", 0),
        (1, "c", "c", 1, 1, 1, 41_000, None, "s", 21_000),
        (2, "a", "a", 1, 1, 1, 2_000, 5_000, None, None),
        (2, "b", "b", 4, 5, 2, 5_000, 12_000, "a", 0),
        (2, "b", "b", 7, 7, 1, 15_000, 20_000, "b", 3_000),
        (2, "c", "c", 1, 1, 1, 41_000, None, "b", 21_000),
    ]


def test_a_commit_is_of_the_generation_that_was_the_latest_then(history: DataFrame) -> None:
    table = commits(history, snapshots(history))
    assert table.schema.names == COMMITS.names
    columns = ("partition", "committed_offset", "ts_ms", "incarnation", "generation_id", "topic", "evidence")
    assert rows_of(table, *columns, by=("ts_ms",)) == [
        (0, 5, 1_100, 0, 0, "t", ("__consumer_offsets", 7, 11)),
        (0, 9, 2_500, 0, 1, "t", ("__consumer_offsets", 7, 13)),
        (1, None, 9_500, 0, 5, "t", ("__consumer_offsets", 7, 17)),
    ]


def test_groups_that_are_not_consumers_have_generations_but_no_partitions(spark: SparkSession) -> None:
    rows = snapshots(decoded(spark, group_record(1, 1_000, 1, member("w"), protocol_type="connect")))
    assert rows_of(generations(rows), "generation_id", "protocol_type", "members", "partitions") == [
        (1, "connect", 1, None)
    ]
    assert ownership(rows).isEmpty()
