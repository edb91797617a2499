"""Loading a shard from its log, and giving it up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.groups.events import GroupLoaded, RecordsSkipped
from kshim.coordinator.groups.offsets.committed_offsets import Commit
from kshim.coordinator.step import Now, RequestContext, Ticket
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.group_metadata import GroupMetadataValue, MemberMetadata
from kshim_protocol.internal.offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kshim_protocol.internal.records import (
    build_group_metadata_key,
    build_group_metadata_value,
    build_offset_commit_key,
    build_offset_commit_value,
    split_position,
)
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from kshim_protocol.records.batch import build_batch, build_key_value_batch, set_base_offset
from kshim_protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from kshim_protocol.records.record import Record
from tests.coordinator.harness import Topics
from tests.coordinator.peers import a_group, fetched, subscription
from tests.coordinator.rules import covers

ORDERS = ("orders", 0)
PARTITION = a_group().coordinator.partition_for("g")


def group_pair(**changes: Any) -> tuple[bytes, bytes]:
    """A record of group `g`: Stable, generation 5, one member `m` of protocol range."""
    member = MemberMetadata(
        member_id="m",
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout=-1,
        session_timeout=10_000,
        subscription=subscription("orders"),
        assignment=b"mine",
    )
    fields: dict[str, Any] = {
        "protocol_type": "consumer",
        "generation": 5,
        "protocol": "range",
        "leader": "m",
        "members": (member,),
        **changes,
    }
    return build_group_metadata_key("g"), build_group_metadata_value(GroupMetadataValue(**fields))


def offset_pair(offset: int, partition: int = 0) -> tuple[bytes, bytes]:
    """A committed offset of group `g`."""
    value = build_offset_commit_value(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=1)
    return build_offset_commit_key("g", "orders", partition), value


# While it loads


@covers(
    "coordinator.loading",
    "heartbeat.loading",
    "describe.loading",
)
def test_a_loading_shard_refuses_everything_but_heartbeats() -> None:
    sim = a_group()
    sim.coordinator.begin_load(PARTITION)
    peer = sim.peer("a")
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert peer.heartbeat() is ErrorCode.NONE
    assert peer.send_join().error is loading
    assert peer.send_sync().error is loading
    assert sim.send(LeaveGroupRequest(group_id="g", members=()), 5).error is loading
    assert peer.commit({ORDERS: 1, ("unheard-of", 0): 1}) == {
        ORDERS: loading,
        ("unheard-of", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert sim.send(OffsetDeleteRequest(group_id="g", topics=()), 0).error is loading
    assert sim.send(ListGroupsRequest(), 5).error is loading
    assert sim.ask(DescribeGroupsRequest(groups=("g",)), 6).groups[0].error_code == loading
    assert sim.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == loading
    groups = (
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="other", topics=None),
    )
    answers = sim.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [answer.error_code for answer in answers] == [loading, ErrorCode.NONE]
    topics = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
    assert sim.send(OffsetFetchRequest(group_id="g", topics=topics), 7).error is loading
    old = sim.ask(OffsetFetchRequest(group_id="g", topics=topics), 1)
    assert old.topics[0].partitions[0].error_code == loading


def test_first_checks_come_before_the_load() -> None:
    sim = a_group()
    sim.coordinator.begin_load(sim.coordinator.partition_for(""))
    sim.coordinator.begin_load(PARTITION)
    assert sim.peer("a", group_id="").heartbeat() is ErrorCode.INVALID_GROUP_ID
    assert sim.peer("a", session_timeout_ms=1).send_join().error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_other_shards_serve_meanwhile() -> None:
    sim = a_group()
    sim.coordinator.begin_load(PARTITION + 1)
    assert sim.stable("a").group.state is GroupState.STABLE


# Afterwards


@covers("load.state", "load.sessions", "session.replaced-or-loaded")
def test_a_group_with_members_comes_back_stable_and_everybody_has_a_full_session() -> None:
    sim = a_group().stable("a", "b", static=["b"])
    sim["a"].commit({ORDERS: 5})
    sim.pass_ms(7_000)
    sim.restart()
    assert sim.group.state is GroupState.STABLE
    assert sim.deadline_ms("session", "g", sim["a"].member_id) == 10_000
    assert sim["a"].heartbeat() is ErrorCode.NONE
    assert sim["b"].send_sync().reply.assignment == b"b"
    assert fetched(sim)[ORDERS].committed_offset == 5
    assert sim["a"].send_join().is_parked  # still the leader: its rejoin rebalances
    events = [event for event in sim.events if isinstance(event, GroupLoaded)]
    assert [(event.state, event.member_count, event.generation_id) for event in events] == [(GroupState.STABLE, 2, 2)]


@covers("load.state")
def test_a_group_without_members_comes_back_empty() -> None:
    sim = a_group().empty()
    sim.restart()
    assert (sim.group.state, sim.group.generation_id) == (GroupState.EMPTY, 2)
    assert sim.group.protocol_type == "consumer"
    assert sim.stable("a").group.generation_id == 3


@covers("load.protocols")
def test_only_the_chosen_protocol_of_a_member_survives() -> None:
    sim = a_group().stable("a", protocols={"range": subscription("orders"), "sticky": b"s"})
    sim.restart()
    assert sim.group.members[sim["a"].member_id].protocols == {"range": subscription("orders")}
    newcomer = sim.peer("b", protocols={"sticky": b"s"})
    assert newcomer.send_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@covers("load.rebalance-forgotten")
def test_a_rebalance_in_progress_is_forgotten() -> None:
    sim = a_group().stable("a")
    late = sim.peer("b")
    call = late.join()
    sim["a"].take(sim["a"].join())
    late.take(call)
    assert sim.group.generation_id == 2
    sim.restart()
    assert (sim.group.state, sim.group.generation_id) == (GroupState.STABLE, 1)
    assert sim["a"].heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert late.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@covers("load.pending-lost")
def test_issued_ids_are_forgotten() -> None:
    sim = a_group()
    peer = sim.peer("a")
    peer.member_id = peer.send_join().reply.member_id
    sim.restart()
    assert peer.send_join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_just_full_comes_back_stable() -> None:
    sim = a_group(group_max_size=2).stable("a", "b")
    sim.restart()
    assert sim.group.state is GroupState.STABLE


@covers("load.over-size")
def test_a_group_that_is_too_large_by_now_rebalances() -> None:
    sim = a_group().stable("a", "b", "c")
    sim.config.group_max_size = 2
    sim.restart()
    assert sim.transitions()[-1] == "Stable -> PreparingRebalance group-too-large"
    calls = [sim[name].send_join() for name in "abc"]
    assert [call.is_parked for call in calls] == [True, True, False]
    assert calls[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    sim.pass_ms(60_000)
    assert [call.error for call in calls[:2]] == [ErrorCode.NONE] * 2


def test_a_loaded_group_expires_silent_members() -> None:
    sim = a_group().stable("a")
    sim.restart()
    sim.pass_ms(10_000)
    assert sim.group.state is GroupState.EMPTY
    assert sim.records()[-1].value.generation == 2


# What records mean


def load(*batches: bytes) -> Any:
    """A Sim whose shard of `g` was read from these batches."""
    sim = a_group()
    offset = 0
    log = sim.logs.setdefault(PARTITION, [])
    for batch in batches:
        log.append(set_base_offset(batch, offset))
        offset += 10
    sim.restart()
    return sim


def test_a_rebalance_timeout_of_minus_one_is_the_session_timeout_and_no_type_is_none() -> None:
    sim = load(build_key_value_batch([group_pair()], 1))
    assert sim.group.members["m"].rebalance_timeout_ms == 10_000
    assert sim.group.leader_id == "m"
    assert sim.group.topics == frozenset({"orders"})
    sim = load(build_key_value_batch([group_pair(protocol_type="", protocol=None, leader=None, members=())], 1))
    assert sim.group.protocol_type is None


def test_a_later_record_replaces_the_group_and_leaves_its_offsets() -> None:
    sim = load(
        build_key_value_batch([group_pair(), offset_pair(5)], 1),
        build_key_value_batch([group_pair(generation=6, leader=None, protocol=None, members=())], 1),
    )
    assert (sim.group.state, sim.group.generation_id) == (GroupState.EMPTY, 6)
    assert fetched(sim)[ORDERS].committed_offset == 5


def test_tombstones_forget() -> None:
    sim = load(
        build_key_value_batch([group_pair(), offset_pair(5), offset_pair(6, partition=1)], 1),
        build_key_value_batch([(offset_pair(0)[0], None)], 1),
        build_key_value_batch([(group_pair()[0], None)], 1),
        build_key_value_batch([(build_offset_commit_key("h", "orders", 0), None)], 1),
    )
    assert sim.find_group() is None
    assert list(fetched(sim)) == [("orders", 1)]


def test_offsets_of_the_oldest_kind_are_read() -> None:
    key = LegacyOffsetCommitKey(group="g", topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=9, metadata="old", commit_timestamp=7)
    pair = (
        b"\0\0" + codec(LegacyOffsetCommitKey, 0).build(key),
        b"\0\0" + codec(LegacyOffsetCommitValue, 0).build(value),
    )
    sim = load(build_key_value_batch([pair], 1))
    assert (fetched(sim)[ORDERS].committed_offset, fetched(sim)[ORDERS].metadata) == (9, "old")
    assert sim.group.protocol_type is None
    offset = sim.shard().offsets.get("g", *ORDERS)
    assert offset is not None
    assert split_position(offset.position) == (9, -1, "old")
    assert offset == (offset.position, Commit(7, -1, bytes(16)), 0)


def test_records_of_other_kinds_are_skipped_and_counted() -> None:
    keys = [b"\0\x12\0\1g", b"\0\x09\0\1g\0\1m", b"\0\x12\0\1h"]
    sim = load(build_key_value_batch([(key, b"\0\0") for key in keys], 1), build_key_value_batch([offset_pair(5)], 1))
    assert fetched(sim)[ORDERS].committed_offset == 5
    events = [event for event in sim.events if isinstance(event, RecordsSkipped)]
    assert [(event.key_type, event.count) for event in events] == [(9, 1), (18, 2)]


def test_a_value_of_an_unknown_version_is_refused_by_offset_type_and_version() -> None:
    key, value = offset_pair(5)
    batches = [build_key_value_batch([offset_pair(5), (key, b"\0\5" + value[2:])], 1)]
    with pytest.raises(ProtocolError, match=r"^offset 1: OffsetCommitValue v5: version at byte 0: unknown version 5$"):
        load(*batches)
    key, value = group_pair()
    with pytest.raises(ProtocolError, match=r"^offset 0: GroupMetadataValue v9: version at byte 0: unknown version 9$"):
        load(build_key_value_batch([(key, b"\0\x09" + value[2:])], 1))


def test_a_record_without_a_key_is_no_record_of_the_offsets_topic() -> None:
    with pytest.raises(ProtocolError, match="no key") as caught:
        load(build_batch([Record(None, b"value")]))
    assert (caught.value.field, caught.value.offset) == ("key", 0)


@covers("txn-commit.commit-marker", "txn-commit.abort-marker")
@pytest.mark.parametrize(
    ("marker", "committed_meanwhile", "offset"),
    [
        (None, False, None),
        (ControlType.COMMIT, False, 7),
        (ControlType.ABORT, False, None),
        (ControlType.COMMIT, True, 9),
        (ControlType.ABORT, True, 9),
    ],
)
def test_transactional_offsets_count_once_their_marker_is_there(
    marker: ControlType | None, committed_meanwhile: bool, offset: int | None
) -> None:
    batches = [
        build_key_value_batch([offset_pair(7)], 1, producer_id=77, producer_epoch=0, is_transactional=True),
    ]
    if committed_meanwhile:
        batches.append(build_key_value_batch([offset_pair(9)], 1))
    if marker is not None:
        end = EndTransactionMarker(marker, 0)
        batches.append(build_end_transaction_batch(end, producer_id=77, producer_epoch=0, timestamp_ms=1))
    sim = load(*batches)
    answer = {key: row.committed_offset for key, row in fetched(sim).items()}
    assert answer == ({} if offset is None else {ORDERS: offset})
    assert sim.shard().offsets.has_pending("g", *ORDERS) == (marker is None)


def test_the_golden_records_of_a_real_broker_load() -> None:
    golden = json.loads((Path(__file__).parents[2] / "golden/consumer_offsets.json").read_text(encoding="utf-8"))
    cases = {case["case"]: case for case in golden["records"]}
    case = cases["GroupMetadata-static-2members"]
    sim = a_group()
    log = sim.logs.setdefault(case["partition"], [])
    log.append(build_key_value_batch([(bytes.fromhex(case["keyHex"]), bytes.fromhex(case["valueHex"]))], 1))
    sim.restart()
    group = sim.find_group(case["key"]["group"])
    assert group is not None
    assert (group.state, group.generation_id) == (GroupState.STABLE, 1)
    assert set(group.static_members) == {"inst-1", "inst-2"}
    assert group.topics == frozenset({"t1"})


# Giving a shard up


@covers("coordinator.starting", "coordinator.stopping")
def test_who_waits_in_a_shard_that_is_given_up_is_sent_to_look_for_the_coordinator_again() -> None:
    sim = a_group().completing("a", "b")
    sync = sim["b"].send_sync()
    other = sim.peer("x", group_id="other")
    other_call = other.join()
    sim.apply(sim.coordinator.unload(PARTITION))
    assert sync.error is ErrorCode.NOT_COORDINATOR
    assert sim["a"].heartbeat() is ErrorCode.NOT_COORDINATOR
    assert sim["a"].send_join().error is ErrorCode.NOT_COORDINATOR
    assert sim.ask(DescribeGroupsRequest(groups=("g",)), 6).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert sim.send(ListGroupsRequest(), 5).error is ErrorCode.NONE
    assert other.take(other_call).generation_id == 1
    sim.pass_ms(1_000_000)  # no timer of the old shard is left


def test_a_parked_join_is_answered_when_its_shard_is_given_up() -> None:
    sim = a_group().preparing("a", "b")
    call = next(call for call in sim.calls if call.is_parked)
    sim.apply(sim.coordinator.unload(PARTITION))
    assert call.error is ErrorCode.NOT_COORDINATOR
    assert call.reply.member_id == sim["a"].member_id


def test_a_shard_that_a_defect_has_left_half_changed_is_as_its_log_says_after_a_reload() -> None:
    sim = a_group().stable("a", "b")
    sim["a"].commit({ORDERS: 5})
    shard = sim.shard()
    del sim.group.members[sim["b"].member_id]
    shard.groups.clear()  # its timers are orphans now
    sim.apply(sim.coordinator.unload(PARTITION))
    sim.coordinator.begin_load(PARTITION)
    assert sim["a"].heartbeat() is ErrorCode.NONE
    sim.coordinator.replay(PARTITION, sim.logs[PARTITION])
    sim.apply(sim.coordinator.finish_load(PARTITION, sim.now))
    assert sorted(sim.group.members) == sorted(sim[name].member_id for name in "ab")
    assert fetched(sim)[ORDERS].committed_offset == 5
    sim.pass_ms(10_000)
    assert sim.group.state is GroupState.EMPTY


def test_a_shard_that_is_given_up_takes_no_other_shards_timers_along() -> None:
    sim = a_group().completing("a")
    others = [sim.peer(name, group_id=name) for name in "abcdefhijk"]
    for other in others:
        other.take(other.join())
    homes = {sim.coordinator.partition_for(other.group_id) for other in others}
    assert min(homes) < PARTITION < max(homes)
    sim.coordinator._homes.clear()  # a defect: nobody knows any more which shard a group is in
    sim.apply(sim.coordinator.unload(PARTITION))
    timers = sim.coordinator._deadlines
    for other in others:
        assert timers.get(("session", other.group_id, other.member_id)) is not None
        assert timers.get(("sync", other.group_id)) is not None
    assert timers.get(("session", "g", sim["a"].member_id)) is None
    assert timers.get(("sync", "g")) is None
    assert {int(key[1]) for key in timers._due if key[0] == "expiry"} == homes


@pytest.mark.parametrize("name", ["session", "join", "sync", "expiry"])
def test_a_group_may_be_called_like_a_kind_of_timer(name: str) -> None:
    sim = a_group().completing("a")
    named = sim.peer("x", group_id=name)
    named.take(named.join())
    home = sim.coordinator.partition_for(name)
    assert home != PARTITION
    sim.apply(sim.coordinator.unload(home))
    assert sim.deadline_ms("session", "g", sim["a"].member_id) == 10_000
    assert sim.deadline_ms("sync", "g") == 60_000
    sim.pass_ms(10_000)
    assert sim.group.state is GroupState.EMPTY


def test_a_stable_group_without_a_protocol_can_be_described() -> None:
    sim = load(build_key_value_batch([group_pair(protocol=None)], 1))
    group = sim.ask(DescribeGroupsRequest(groups=("g",)), 6).groups[0]
    assert (group.group_state, group.protocol_data, group.members[0].member_metadata) == ("Stable", "", b"")


@pytest.mark.parametrize("rebalance_timeout_ms", [-2, 0, 5])
def test_any_other_rebalance_timeout_is_what_the_record_says(rebalance_timeout_ms: int) -> None:
    sim = a_group().stable("a", rebalance_timeout_ms=rebalance_timeout_ms)
    sim.restart()
    assert sim.group.members[sim["a"].member_id].rebalance_timeout_ms == rebalance_timeout_ms


class BrokenTopics(Topics):
    def partition_count(self, topic: str) -> int | None:
        raise RuntimeError("nobody knows")


@pytest.mark.parametrize("group_id", ["g", "other"])
def test_what_is_being_worked_on_is_known_when_something_breaks(group_id: str) -> None:
    coordinator = GroupCoordinator(GroupConfig(), topics=BrokenTopics({}), new_id=str)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id="",
        topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
    )
    with pytest.raises(RuntimeError, match="nobody knows"):
        coordinator.offset_commit(request, RequestContext(9, "client", "/127.0.0.1", Now(0, 0)), Ticket())
    assert coordinator.step.at_work == coordinator.partition_for(group_id)
