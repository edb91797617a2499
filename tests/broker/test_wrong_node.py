"""What a node answers for partitions and groups that another one leads, and what those hear who wait when that changes."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import OffsetDeleteRequest
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.batch import parse_batch_header
from kshim_protocol.schema import Request
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce, produce_of, values_in
from tests.broker.harness import Client, NodeUnderTest, a_node

SHARDS = 3


def three_nodes() -> NodeUnderTest:
    """Node n leads partition n-1 of `orders`; so it does of the offsets topic."""
    node = a_node(
        {"offsets.topic.num.partitions": str(SHARDS), "group.initial.rebalance.delay.ms": "0"},
        topics={"orders": 3},
        node_count=3,
    )
    node.cluster.groups.topic()
    return node


def a_group_of(node_id: int) -> str:
    """A group id whose coordinator is that node of `three_nodes`."""
    return next(f"g{i}" for i in range(100) if partition_for(f"g{i}", SHARDS) == node_id - 1)


# Records


def epoch_end(client: Client, epoch: int, *, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    answer = client.ask(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic="orders", partitions=(wanted,)),))
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def latest(client: Client, *, current: int = -1) -> tuple[int, int, int]:
    wanted = ListOffsetsPartition(partition_index=0, current_leader_epoch=current, timestamp=-1)
    answer = client.ask(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(ListOffsetsTopic(name="orders", partitions=(wanted,)),),
            timeout_ms=0,
        )
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.offset


def test_records_are_written_and_read_at_the_leader_only() -> None:
    node = three_nodes()
    stranger, leader = node.client(node_id=2), node.client(node_id=1)
    for refused in (
        produce(stranger, "orders", a_batch()).error_code,
        only_partition(stranger.ask(fetch_of(("orders", 0, 0), max_wait_ms=500), 12)).error_code,
        latest(stranger)[0],
        epoch_end(stranger, 0)[0],
    ):
        assert refused == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(leader, "orders", a_batch(b"1")).base_offset == 0
    assert values_in(only_partition(leader.ask(fetch_of(("orders", 0, 0)), 12)).records) == [b"1"]
    assert latest(leader) == (ErrorCode.NONE, 0, 1)
    assert epoch_end(leader, 0) == (ErrorCode.NONE, 0, 1)


def test_a_node_without_the_partition_does_not_look_at_the_epoch() -> None:
    node = three_nodes()
    stranger = node.client(node_id=2)
    reply = stranger.ask(fetch_of(("orders", 0, 0), partition={"current_leader_epoch": 7}), 12)
    assert only_partition(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert latest(stranger, current=7)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_request_may_find_some_partitions_here_and_others_elsewhere() -> None:
    node = three_nodes()
    answers = node.client(node_id=2).ask(produce_of("orders", a_batch(), a_batch(), a_batch()), 12).responses[0]
    assert [answer.error_code for answer in answers.partition_responses] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert [node.log("orders", index).end_offset for index in range(3)] == [0, 1, 0]


def test_the_response_names_the_current_leader_in_versions_that_have_the_field() -> None:
    node = three_nodes()
    stranger = node.client(node_id=2)
    topic_id = node.cluster.topics.topic_id("orders") or b""
    written = stranger.ask(produce_of("orders", a_batch()), 10)
    read = stranger.ask(fetch_of((topic_id, 0, 0)), 16)
    for answer in (written, read):
        current = only_partition(answer).current_leader
        assert (current.leader_id, current.leader_epoch) == (1, 0)
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(1, "127.0.0.1", 9092)]
    assert only_partition(stranger.ask(produce_of("orders", a_batch()), 9)).current_leader.leader_id == -1
    assert only_partition(stranger.ask(fetch_of((topic_id, 0, 0)), 15)).current_leader.leader_id == -1


def test_a_new_leader_writes_in_a_new_epoch_and_knows_where_the_old_one_ended() -> None:
    node = three_nodes()
    produce(node.client(node_id=1), "orders", a_batch(b"1", b"2"))
    node.cluster.leader_election.move("orders", 0, 3)
    leader = node.client(node_id=3)
    produce(leader, "orders", a_batch(b"3"))
    assert [parse_batch_header(batch).partition_leader_epoch for batch in node.log("orders").batches()] == [0, 1]
    assert epoch_end(leader, 0) == (ErrorCode.NONE, 0, 2)
    assert epoch_end(leader, 1) == (ErrorCode.NONE, 1, 3)
    assert epoch_end(leader, 2) == (ErrorCode.NONE, -1, -1)
    assert latest(leader) == (ErrorCode.NONE, 1, 3)


@pytest.mark.parametrize(
    ("known", "error"),
    [
        (-1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_clients_that_know_another_epoch_of_the_leader_are_told(known: int, error: ErrorCode) -> None:
    node = three_nodes()
    node.cluster.leader_election.move("orders", 0, 3)
    leader = node.client(node_id=3)
    fetched = only_partition(leader.ask(fetch_of(("orders", 0, 0), partition={"current_leader_epoch": known}), 12))
    assert fetched.error_code == error
    assert latest(leader, current=known)[0] == error
    assert epoch_end(leader, 0, current=known)[0] == error


def test_a_reader_whose_last_epoch_ended_earlier_is_told_where() -> None:
    node = three_nodes()
    produce(node.client(node_id=1), "orders", a_batch(b"1", b"2"))
    node.cluster.leader_election.move("orders", 0, 3)
    produce(node.client(node_id=3), "orders", a_batch(b"3", b"4"))
    reply = node.client(node_id=3).ask(fetch_of(("orders", 0, 3), partition={"last_fetched_epoch": 0}), 12)
    diverging = only_partition(reply).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 2)


def test_a_fetch_that_waits_in_a_partition_that_moves_is_sent_away() -> None:
    node = three_nodes()
    consumer = node.client(node_id=1)
    consumer.send(fetch_of((node.cluster.topics.topic_id("orders") or b"", 0, 0), max_wait_ms=500), 17)
    assert consumer.is_waiting
    node.cluster.leader_election.move("orders", 0, 2)
    answer = consumer.take(FetchResponse)
    assert only_partition(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only_partition(answer).current_leader.leader_id == 2
    assert [each.node_id for each in answer.node_endpoints] == [2]
    assert len(node.cluster.fetch_purgatory) == 0


def test_a_fetch_that_waits_at_a_node_that_stops_is_sent_away_before_its_client_is_cut_off() -> None:
    node = three_nodes()
    consumer = node.client(node_id=1)
    consumer.send(fetch_of(("orders", 0, 0), max_wait_ms=500), 12)
    node.cluster.leader_election.stop_node(1)
    assert only_partition(consumer.take(FetchResponse)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert consumer.is_closed


def test_an_idempotent_producer_goes_on_at_the_new_leader_and_a_repeat_is_no_second_copy() -> None:
    node = three_nodes()
    first, second = (
        a_batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)
        for sequence, value in enumerate((b"1", b"2"))
    )
    produce(node.client(node_id=1), "orders", first)
    node.cluster.leader_election.move("orders", 0, 2)
    leader = node.client(node_id=2)
    assert produce(leader, "orders", first).base_offset == 0
    assert produce(leader, "orders", second).base_offset == 1
    assert node.log("orders").end_offset == 2


# Groups


def found_coordinator(node: NodeUnderTest, group_id: str, version: int) -> tuple[int, int]:
    request = (
        FindCoordinatorRequest(key=group_id) if version < 4 else FindCoordinatorRequest(coordinator_keys=(group_id,))
    )
    answer = node.client(node_id=3).ask(request, version)
    found: Any = answer if version < 4 else answer.coordinators[0]
    return found.node_id, found.port


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_any_node_tells_which_one_coordinates_a_group(version: int) -> None:
    node = three_nodes()
    for node_id in (1, 2, 3):
        assert found_coordinator(node, a_group_of(node_id), version) == (node_id, 9091 + node_id)


def join_of(group_id: str, member_id: str = "") -> JoinGroupRequest:
    return GroupMember(group_id, member_id).join(
        9, [("range", b"meta")], session_timeout_ms=10_000, rebalance_timeout_ms=20_000
    )


def requests_for(group_id: str) -> list[Request[Any]]:
    return [
        join_of(group_id),
        SyncGroupRequest(group_id=group_id, generation_id=1, member_id="m", assignments=()),
        HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m"),
        LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id="m"),)),
        OffsetDeleteRequest(group_id=group_id, topics=()),
    ]


@pytest.mark.parametrize("index", range(5))
def test_groups_are_served_by_their_coordinator_only(index: int) -> None:
    node = three_nodes()
    request = requests_for(a_group_of(2))[index]
    for node_id in (1, 3):
        assert node.client(node_id=node_id).ask(request).error_code == ErrorCode.NOT_COORDINATOR
    assert node.client(node_id=2).ask(request).error_code != ErrorCode.NOT_COORDINATOR


def test_a_commit_to_the_wrong_node_is_refused_for_each_partition() -> None:
    node = three_nodes()
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=i, committed_offset=5, committed_metadata="") for i in (0, 1)
    )
    request = OffsetCommitRequest(
        group_id=a_group_of(2),
        member_id="",
        topics=(OffsetCommitRequestTopic(name="orders", partitions=partitions),),
    )
    answer = node.client(node_id=1).ask(request, 9)
    assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR] * 2


def test_of_several_groups_in_one_request_each_has_its_own_answer() -> None:
    node = three_nodes()
    ours, theirs = a_group_of(1), a_group_of(2)
    client = node.client(node_id=1)
    expected = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    fetched = client.ask(
        OffsetFetchRequest(
            groups=tuple(
                OffsetFetchRequestGroup(
                    group_id=group_id, topics=(OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
                )
                for group_id in (theirs, ours)
            ),
            require_stable=False,
        ),
        8,
    )
    assert [(each.group_id, each.error_code) for each in fetched.groups] == list(
        zip((theirs, ours), expected, strict=True)
    )
    described = client.ask(DescribeGroupsRequest(groups=(theirs, ours), include_authorized_operations=False), 5)
    assert [each.error_code for each in described.groups] == expected
    deleted = client.ask(DeleteGroupsRequest(groups_names=(theirs, ours)))
    assert {each.group_id: each.error_code for each in deleted.results} == {
        theirs: ErrorCode.NOT_COORDINATOR,
        ours: ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_an_old_offset_fetch_to_the_wrong_node_has_one_error() -> None:
    node = three_nodes()
    topics = (OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),)
    for version in range(1, 8):
        answer = node.client(node_id=1).ask(OffsetFetchRequest(group_id=a_group_of(3), topics=topics), version)
        errors = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        assert ErrorCode.NOT_COORDINATOR in {answer.error_code, *errors}


def sync_of(group_id: str, generation_id: int, member_id: str) -> SyncGroupRequest:
    return SyncGroupRequest(group_id=group_id, generation_id=generation_id, member_id=member_id, assignments=())


def a_member(node: NodeUnderTest, group_id: str, node_id: int) -> tuple[Client, str]:
    """A stable group of one."""
    client = node.client(node_id=node_id)
    member_id = client.ask(join_of(group_id), 9).member_id
    joined = client.ask(join_of(group_id, member_id), 9)
    assert joined.error_code == ErrorCode.NONE
    synced = client.ask(sync_of(group_id, 1, member_id), 4)
    assert synced.error_code == ErrorCode.NONE
    return client, member_id


def test_each_node_lists_the_groups_it_coordinates() -> None:
    node = three_nodes()
    for node_id in (1, 2, 3):
        a_member(node, a_group_of(node_id), node_id)
    for node_id in (1, 2, 3):
        listed = node.client(node_id=node_id).ask(ListGroupsRequest())
        assert [group.group_id for group in listed.groups] == [a_group_of(node_id)]


def heartbeat(client: Client, group_id: str, member_id: str) -> int:
    return client.ask(HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id)).error_code


def test_a_group_goes_on_at_its_new_coordinator_once_that_has_read_it() -> None:
    node = three_nodes()
    group_id = a_group_of(2)
    _, member_id = a_member(node, group_id, 2)
    node.cluster.leader_election.stop_node(2)
    assert found_coordinator(node, group_id, 4) == (3, 9094)
    assert heartbeat(node.client(node_id=1), group_id, member_id) == ErrorCode.NOT_COORDINATOR
    answer = node.client(node_id=3).ask(join_of(group_id, member_id))
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.run_background_tasks()
    assert heartbeat(node.client(node_id=3), group_id, member_id) == ErrorCode.NONE
    assert heartbeat(node.client(node_id=1), group_id, member_id) == ErrorCode.NOT_COORDINATOR


def test_only_the_groups_that_move_are_read_again() -> None:
    node = three_nodes()
    group_id = a_group_of(1)
    client, member_id = a_member(node, group_id, 1)
    a_member(node, a_group_of(2), 2)
    node.cluster.leader_election.stop_node(2)
    assert heartbeat(client, group_id, member_id) == ErrorCode.NONE


def test_members_that_wait_are_sent_to_look_for_their_coordinator() -> None:
    node = three_nodes()
    group_id = a_group_of(1)
    _, first_id = a_member(node, group_id, 1)
    joining = node.client(node_id=1)
    second_id = joining.ask(join_of(group_id), 9).member_id
    joining.send(join_of(group_id, second_id), 9)
    assert joining.is_waiting
    node.cluster.leader_election.move(OFFSETS_TOPIC, 0, 3)
    assert joining.take(JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    node.run_background_tasks()
    assert heartbeat(node.client(node_id=3), group_id, first_id) == ErrorCode.NONE


def test_members_that_wait_for_their_assignment_are_sent_away_too() -> None:
    node = three_nodes()
    group_id = a_group_of(1)
    leader, leader_id = a_member(node, group_id, 1)
    follower = node.client(node_id=1)
    follower_id = follower.ask(join_of(group_id), 9).member_id
    follower.send(join_of(group_id, follower_id), 9)
    assert leader.ask(join_of(group_id, leader_id), 9).leader == leader_id
    assert follower.take(JoinGroupResponse).generation_id == 2
    follower.send(sync_of(group_id, 2, follower_id), 4)
    assert follower.is_waiting
    node.cluster.leader_election.move(OFFSETS_TOPIC, 0, 2)
    assert follower.take(SyncGroupResponse).error_code == ErrorCode.NOT_COORDINATOR


def test_a_coordinator_may_move_while_it_is_read() -> None:
    node = three_nodes()
    group_id = a_group_of(1)
    _, member_id = a_member(node, group_id, 1)
    node.cluster.leader_election.move(OFFSETS_TOPIC, 0, 2)
    node.cluster.leader_election.move(OFFSETS_TOPIC, 0, 3)
    node.run_background_tasks()
    assert heartbeat(node.client(node_id=3), group_id, member_id) == ErrorCode.NONE


def test_groups_outlive_that_all_nodes_were_stopped() -> None:
    node = three_nodes()
    group_id = a_group_of(1)
    _, member_id = a_member(node, group_id, 1)
    for node_id in (1, 2, 3):
        node.cluster.leader_election.stop_node(node_id)
    node.pass_ms(60_000)  # nobody misses a heartbeat meanwhile
    node.cluster.leader_election.start_node(2)
    node.run_background_tasks()
    assert heartbeat(node.client(node_id=2), group_id, member_id) == ErrorCode.NONE


def test_events_name_the_node_that_coordinates() -> None:
    node = three_nodes()
    group_id = a_group_of(2)
    a_member(node, group_id, 2)
    node.cluster.leader_election.move(OFFSETS_TOPIC, 1, 3)
    node.run_background_tasks()
    told = [event for event in node.cluster.history.ring if event.group_id == group_id]
    assert told[0].broker == 2
    assert told[-1].broker == 3
