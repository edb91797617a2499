"""The small parts: state table, deadlines, offsets of a shard, partition of a group, subscriptions, configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.groups.classic.group import NOTHING, Group, with_entry
from kshim.coordinator.groups.classic.state import VALID_PREVIOUS, GroupState, mermaid
from kshim.coordinator.groups.classic.subscriptions import subscribed_topics
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.events import Cause, Trigger
from kshim.coordinator.groups.offsets.committed_offsets import CommittedOffset
from kshim.coordinator.groups.offsets.shard_offsets import Offsets
from kshim.coordinator.step import Now, Step
from kshim_protocol.partitioner import java_hash, partition_for
from tests.coordinator.peers import subscription
from tests.coordinator.rules import covers

ROOT = Path(__file__).parents[2]


# States


@covers("state.transitions")
@pytest.mark.parametrize("new", GroupState)
@pytest.mark.parametrize("previous", GroupState)
def test_a_group_moves_only_as_the_table_allows(previous: GroupState, new: GroupState) -> None:
    group, step = Group("g", 0, previous), Step()
    trigger = Trigger(cause=Cause.MEMBER_LEFT, detail="")
    if previous in VALID_PREVIOUS[new]:
        group.move_to(new, trigger=trigger, now=Now(1, 2), step=step)
        assert group.state is new
        assert group.state_changed_ms == 2
        assert len(step.events) == 1
    else:
        with pytest.raises(AssertionError):
            group.move_to(new, trigger=trigger, now=Now(1, 2), step=step)
        assert group.state is previous
        assert step.events == []


def test_the_diagram_in_the_documentation_is_the_table() -> None:
    page = (ROOT / "docs/design/coordinator.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{mermaid()}\n```" in page


def test_nothing_else_assigns_a_state() -> None:
    sources = (ROOT / "shim/kshim/coordinator/groups").rglob("*.py")
    assignments = [
        line.strip()
        for source in sources
        for line in source.read_text(encoding="utf-8").splitlines()
        if ".state = " in line
    ]
    assert sorted(assignments) == ["self.state = new", "self.state = state"]  # move_to, and where a group begins


# Deadlines


def test_deadlines_fire_by_time_then_key_and_not_before() -> None:
    deadlines = Deadlines()
    for key, at_ms in {("sync", "b"): 10, ("join", "b"): 10, ("session", "a", "m"): 10, ("join", "a"): 11}.items():
        deadlines.set(key, at_ms)
    assert deadlines.pop_due(9) is None
    assert [deadlines.pop_due(20) for _ in range(5)] == [
        ("join", "b"),
        ("session", "a", "m"),
        ("sync", "b"),
        ("join", "a"),
        None,
    ]


def test_a_deadline_that_was_moved_later_hides_no_other_that_is_due() -> None:
    deadlines = Deadlines()
    deadlines.set(("session", "a", "m"), 5)
    deadlines.set(("session", "a", "m"), 50)
    deadlines.set(("join", "a"), 6)
    assert deadlines.pop_due(10) == ("join", "a")
    assert deadlines.pop_due(50) == ("session", "a", "m")


def test_a_deadline_that_was_cancelled_hides_no_other_that_is_due() -> None:
    deadlines = Deadlines()
    deadlines.set(("session", "a", "m"), 5)
    deadlines.cancel(("session", "a", "m"))
    deadlines.set(("sync", "a"), 6)
    deadlines.set(("sync", "a"), 4)  # the entry of 6 is left over
    deadlines.set(("join", "a"), 7)
    assert [deadlines.pop_due(10) for _ in range(3)] == [("sync", "a"), ("join", "a"), None]


def test_moving_a_deadline_again_and_again_does_not_fill_the_heap() -> None:
    deadlines = Deadlines()
    for turn in range(10_000):
        deadlines.cancel(("join", "g"))
        deadlines.set(("join", "g"), 10_000 - turn)
        deadlines.set(("session", "g", "m"), 20_000 + turn)
    assert len(deadlines._heap) < 200
    assert deadlines.earliest() == 1


KEYS = st.sampled_from([("join", "a"), ("join", "b"), ("sync", "a"), ("session", "a", "x"), ("session", "a", "y")])
TIMES = st.integers(0, 50)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), KEYS, TIMES),
            st.tuples(st.just("cancel"), KEYS, TIMES),
            st.tuples(st.just("drop group"), KEYS, TIMES),
            st.tuples(st.just("pass"), KEYS, TIMES),
        )
    )
)
def test_deadlines_agree_with_a_plain_dict(actions: list[tuple[str, Key, int]]) -> None:
    deadlines = Deadlines()
    model: dict[Key, int] = {}
    for action, key, at_ms in actions:
        match action:
            case "set":
                deadlines.set(key, at_ms)
                model[key] = at_ms
            case "cancel":
                deadlines.cancel(key)
                model.pop(key, None)
            case "drop group":
                deadlines.cancel_where(lambda other, gone=key[1]: other[1] == gone)  # type: ignore[misc]
                model = {other: due for other, due in model.items() if other[1] != key[1]}
            case _:
                due = sorted((due, other) for other, due in model.items() if due <= at_ms)
                assert [deadlines.pop_due(at_ms) for _ in range(len(due) + 1)] == [*(other for _, other in due), None]
                for _, other in due:
                    del model[other]
        assert len(deadlines) == len(model)
        assert {other: deadlines.get(other) for other in model} == model
        earliest = deadlines.earliest()
        if model:
            assert earliest is not None
            assert earliest <= min(model.values())


# Offsets


def offset(record_offset: int) -> CommittedOffset:
    return CommittedOffset.of(record_offset, -1, "", 0, record_offset=record_offset)


@covers("txn-commit.accepted", "txn-commit.commit-marker", "txn-commit.abort-marker")
def test_several_producers_may_have_offsets_pending_for_one_partition() -> None:
    offsets = Offsets()
    offsets.put_pending(1, "g", "t", 0, offset(5))
    offsets.put_pending(2, "g", "t", 0, offset(6))
    offsets.put_pending(1, "g", "t", 1, offset(7))
    assert sorted(offsets.pending_partitions("g")) == [("t", 0), ("t", 1)]
    offsets.commit_transaction(2)
    assert offsets.get("g", "t", 0) == offset(6)
    assert offsets.has_pending("g", "t", 0)
    offsets.commit_transaction(1)
    assert offsets.get("g", "t", 0) == offset(6)  # written later than the other's
    assert offsets.get("g", "t", 1) == offset(7)
    assert not offsets.has_open_transaction("g")
    offsets.put_pending(3, "g", "t", 0, offset(9))
    offsets.abort_transaction(3)
    offsets.abort_transaction(3)
    assert offsets.get("g", "t", 0) == offset(6)


def test_removing_an_offset_clears_what_is_pending_for_its_partition() -> None:
    offsets = Offsets()
    offsets.put("g", "t", 0, offset(1))
    offsets.put_pending(1, "g", "t", 0, offset(5))
    offsets.put_pending(1, "g", "t", 1, offset(6))
    offsets.put_pending(2, "g", "t", 0, offset(7))
    offsets.remove("g", "t", 0)
    offsets.remove("g", "unheard-of", 0)
    assert offsets.of_group("g") == {}
    assert offsets.pending_partitions("g") == [("t", 1)]
    assert list(offsets._pending) == [1], "nothing is kept of producers that have nothing pending"
    offsets.commit_transaction(1)
    offsets.commit_transaction(2)
    assert offsets.of_group("g") == {"t": {1: offset(6)}}
    assert (offsets._pending, offsets._open) == ({}, {})


# The rest


def test_what_groups_that_rest_share_stays_empty() -> None:
    with pytest.raises(TypeError, match="stays empty"):
        NOTHING["a"] = 1
    assert not NOTHING
    own = with_entry(NOTHING, "a", 1)
    assert with_entry(own, "b", 2) is own
    assert own == {"a": 1, "b": 2}


def test_groups_live_in_the_partitions_kafka_puts_them_in() -> None:
    golden = json.loads((ROOT / "tests/golden/consumer_offsets.json").read_text(encoding="utf-8"))["partitioner"]
    for case in golden:
        assert java_hash(case["group"]) == case["javaHash"]
        assert partition_for(case["group"], 50) == case["partition"]
    assert java_hash("") == 0


@given(st.text(max_size=80) | st.text("abc-", min_size=60, max_size=70))
def test_a_hash_is_that_of_java_however_long_the_text_is(text: str) -> None:
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big") + (1 << 31)) % (1 << 32) - (1 << 31)
    assert java_hash(text) == hashed


def test_subscriptions_are_read_by_their_first_rows_whatever_their_version() -> None:
    newer = (9).to_bytes(2, "big") + subscription("c", version=3)[2:] + b"more"
    metadata = [subscription("a", "b", version=0), subscription("b", version=2), newer]
    assert subscribed_topics(metadata) == frozenset("abc")
    assert subscribed_topics([]) == frozenset()
    for broken in (b"", b"\0", b"\0\0", subscription("a")[:-9]):
        assert subscribed_topics([subscription("a"), broken]) is None


def test_defaults_are_kafkas_but_for_the_initial_delay() -> None:
    config = GroupConfig()
    assert {name: getattr(config, name) for name in GroupConfig.__annotations__} == {
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        "group_max_size": 2_147_483_647,
        "group_initial_rebalance_delay_ms": 0,
        "broker_rack": None,
        "group_consumer_assignment_interval_ms": 1_000,
        "group_consumer_assignors": ("uniform", "range"),
        "group_consumer_heartbeat_interval_ms": 5_000,
        "group_consumer_max_size": 2_147_483_647,
        "group_consumer_migration_policy": "bidirectional",
        "group_consumer_regex_refresh_interval_ms": 600_000,
        "group_consumer_session_timeout_ms": 45_000,
        "offsets_retention_minutes": 10_080,
        "offsets_retention_check_interval_ms": 600_000,
        "offset_metadata_max_bytes": 4_096,
        "offsets_topic_num_partitions": 50,
    }
    assert config.offsets_retention_ms == 7 * 24 * 60 * 60 * 1_000
