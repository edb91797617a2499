"""What each action does at the wire, request by request."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.broker.connection import ConnectionClosing
from kshim.partitions.durability import FsyncPolicy
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatResponse
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import OffsetCommitResponse
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record
from tests.broker.harness import NoReply, a_node, files_in
from tests.faults.harness import (
    RawClient,
    a_commit,
    a_fetch,
    a_heartbeat,
    a_join,
    a_produce,
    a_sync,
    arm,
    codes,
    faults_of,
    joined,
)

UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NONE = ErrorCode.NONE


# Errors


def test_an_error_is_answered_instead_of_doing_the_work() -> None:
    node = a_node(topics={"t": 1})
    faults = faults_of(node)
    fault = arm(faults, "OffsetCommit", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}, {"times": 2})
    client = node.client()
    for expected in (LOADING, LOADING, NONE):
        assert codes(client.ask(a_commit(t=1), 9)) == [("t", 0, expected)]
    assert [firing.number for firing in fault.fired] == [1, 2]
    assert node.cluster.groups.coordinator.shard_of("g") is not None


@pytest.mark.parametrize("version", [3, 9, 13])
def test_of_many_partitions_only_those_matched_have_the_error_and_the_others_are_written(version: int) -> None:
    node = a_node(topics={"t": 3, "u": 1})
    faults = faults_of(node)
    arm(faults, "Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, topic="t", partition=1)
    request = a_produce(t=3, u=1)
    if version >= 13:
        for data in request.topic_data:
            topic = node.cluster.topics.named(data.name)
            assert topic is not None
            data.topic_id, data.name = topic.topic_id, ""  # type: ignore[misc]
    answer = node.client().ask(request, version)
    found = [
        (partition.index, partition.error_code) for topic in answer.responses for partition in topic.partition_responses
    ]
    assert sorted(found) == [(0, NONE), (0, NONE), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (2, NONE)]
    assert [node.log("t", index).end_offset for index in range(3)] == [1, 0, 1]


def test_a_pattern_of_topics_takes_all_their_partitions() -> None:
    node = a_node(topics={"orders-eu": 2, "other": 1})
    arm(faults_of(node), "OffsetCommit", {"error": "NOT_COORDINATOR"}, topic="orders-*")
    answer = node.client().ask(a_commit(**{"orders-eu": 2, "other": 1}), 9)
    assert codes(answer) == [("orders-eu", 0, 16), ("orders-eu", 1, 16), ("other", 0, 0)]


def test_a_produce_without_an_answer_that_is_to_fail_is_cut_off() -> None:
    node = a_node(topics={"t": 2})
    faults = faults_of(node)
    arm(faults, "Produce", {"error": "NOT_LEADER_OR_FOLLOWER"})
    with pytest.raises(ConnectionClosing):
        node.client().send(a_produce(acks=0, t=2), 9)
    arm(faults, "Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}, partition=1)
    client = node.client()
    client.send(a_produce(acks=0, t=2), 9)
    node.pass_ms(0)
    assert client.hung_up is not None
    assert [node.log("t", index).end_offset for index in range(2)] == [1, 0]


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_has_the_error_of_one_partition_and_the_records_of_the_other(version: int) -> None:
    node = a_node(topics={"t": 2})
    client = node.client()
    client.ask(a_produce(t=2), 9)
    arm(faults_of(node), "Fetch", {"error": "OFFSET_OUT_OF_RANGE"}, partition=0)
    answer = client.ask(a_fetch(60_000, t=2), version)
    by_index = {data.partition_index: data for data in answer.responses[0].partitions}
    assert (by_index[0].error_code, by_index[0].records) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
    assert by_index[1].error_code == NONE
    assert by_index[1].records


def test_a_fetch_of_a_session_that_names_nothing_is_matched_by_what_the_session_knows() -> None:
    node = a_node(topics={"t": 2})
    client = node.client()
    session_id = client.ask(a_fetch(session=(0, 0), t=2), 12).session_id
    arm(faults_of(node), "Fetch", {"error": "NOT_LEADER_OR_FOLLOWER"}, topic="t", partition=1)
    answer = client.ask(a_fetch(60_000, session=(session_id, 1)), 12)
    assert codes(answer) == [("t", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert client.ask(a_fetch(session=(session_id, 2)), 12).error_code == NONE


def test_an_error_of_a_fetch_session_stands_at_the_top() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Fetch", {"error": "FETCH_SESSION_ID_NOT_FOUND"})
    answer = node.client().ask(a_fetch(t=1), 13)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


def test_metadata_shows_a_topic_as_unknown_or_a_partition_without_a_leader() -> None:
    node = a_node(topics={"t": 2, "u": 1})
    faults = faults_of(node)
    arm(faults, "Metadata", {"error": "UNKNOWN_TOPIC_OR_PARTITION"}, topic="t")
    arm(faults, "Metadata", {"error": "LEADER_NOT_AVAILABLE", "level": "partition"}, partition=1)
    client = node.client()
    every = MetadataRequest(topics=None)
    answer = {topic.name: topic for topic in client.ask(every, 12).topics}
    assert (answer["t"].error_code, answer["t"].partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    assert answer["u"].error_code == NONE
    named = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
    (topic,) = client.ask(named, 12).topics
    assert codes_of_partitions(topic) == [(0, NONE), (1, ErrorCode.LEADER_NOT_AVAILABLE)]


def codes_of_partitions(topic: object) -> list[tuple[int, int]]:
    return sorted((partition.partition_index, partition.error_code) for partition in topic.partitions)  # type: ignore[attr-defined]


def test_a_group_of_a_lookup_is_refused_and_the_others_found() -> None:
    node = a_node()
    arm(faults_of(node), "FindCoordinator", {"error": "COORDINATOR_NOT_AVAILABLE"}, group="a")
    answer = node.client().ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b")), 4)
    assert {found.key: found.error_code for found in answer.coordinators} == {
        "a": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "b": NONE,
    }


# Time


def test_a_delay_holds_the_answer_back_and_the_work_is_done() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Produce", {"delay": 2.5})
    client = node.client()
    client.send(a_produce(t=1), 9)
    assert client.is_waiting
    assert node.log("t").end_offset == 1
    node.pass_ms(2_499)
    assert client.is_waiting
    node.pass_ms(1)
    assert codes(client.take(ProduceResponse)) == [("t", 0, NONE)]


def test_a_delay_before_holds_the_work_back_too_and_it_is_done_as_of_then() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Fetch", {"delay": 2, "when": "before"})
    client = node.client()
    client.send(a_fetch(500, t=1), 12)
    node.pass_ms(2_499)
    assert client.is_waiting
    node.pass_ms(1)
    client.take(FetchResponse)


def test_what_was_sent_is_done_after_a_delay_even_if_the_client_is_gone() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Produce", {"delay": 1, "when": "before"})
    client = node.client()
    client.send(a_produce(t=1), 9)
    client.close()
    assert node.log("t").end_offset == 0
    node.pass_ms(1_000)
    assert node.log("t").end_offset == 1


def test_a_hang_does_nothing_and_a_dropped_reply_does_the_work() -> None:
    node = a_node(topics={"t": 1, "u": 1})
    faults = faults_of(node)
    arm(faults, "Produce", "hang", topic="t")
    arm(faults, "Produce", "drop_reply", topic="u")
    hanging, dropped = node.client(), node.client()
    hanging.send(a_produce(t=1), 9)
    dropped.send(a_produce(u=1), 9)
    node.pass_ms(600_000)
    assert hanging.is_waiting
    assert dropped.is_waiting
    assert (node.log("t").end_offset, node.log("u").end_offset) == (0, 1)


def test_a_fault_on_the_answer_of_a_parked_request_acts_when_it_is_made() -> None:
    node = a_node({"group.initial.rebalance.delay.ms": "3000"})
    fault = arm(faults_of(node), "JoinGroup", "drop_reply", {"nth": 2})
    client = node.client()
    member_id = client.ask(a_join(), 9).member_id
    client.send(a_join(member_id), 9)
    assert fault.fired == []
    node.pass_ms(3_000)
    assert client.is_waiting
    assert [firing.member_id for firing in fault.fired] == [member_id]
    other = node.client()
    assert other.ask(a_heartbeat(member=member_id), 4).error_code == NONE


def test_throttle_time_is_answered_where_there_is_room_for_it() -> None:
    node = a_node()
    arm(faults_of(node), "Heartbeat", {"throttle": 700}, "always")
    client = node.client()
    assert client.ask(a_heartbeat(), 4).throttle_time_ms == 700
    assert client.ask(a_heartbeat(), 0).error_code == UNKNOWN_MEMBER


# Connections and frames


def test_a_connection_is_closed_before_the_work_or_after_it() -> None:
    node = a_node(topics={"t": 1})
    faults = faults_of(node)
    arm(faults, "Produce", "disconnect")
    with pytest.raises(ConnectionClosing, match="Produce: disconnect before"):
        node.client().send(a_produce(t=1), 9)
    assert node.log("t").end_offset == 0
    arm(faults, "Produce", {"disconnect": "after"})
    client = node.client()
    client.send(a_produce(t=1), 9)
    node.pass_ms(0)
    assert client.hung_up is not None
    assert client.is_waiting
    assert node.log("t").end_offset == 1


def the_answer(**fault: object) -> tuple[RawClient, bytes]:
    """What comes instead of the answer to a heartbeat in version 4, and the sound one."""
    node = a_node()
    faults = faults_of(node)
    client = RawClient(node, "tester", "/127.0.0.1")
    client.send(a_heartbeat(), 4)
    (sound,) = client.frames
    client.frames = []
    arm(faults, "Heartbeat", fault)
    client.send(a_heartbeat(), 4)
    node.pass_ms(0)
    return client, sound


def test_a_truncated_answer_ends_halfway_with_the_connection() -> None:
    client, sound = the_answer(truncate=True)
    (frame,) = client.frames
    assert frame[:4] == sound[:4]
    assert 4 < len(frame) < len(sound)
    assert client.hung_up is not None


def test_a_corrupted_answer_has_its_size_and_correlation_id() -> None:
    client, sound = the_answer(corrupt=True)
    (frame,) = client.frames
    assert (frame[:4], int.from_bytes(frame[4:8], "big")) == (sound[:4], 2)
    assert frame[8:] == bytes(byte ^ 0xFF for byte in sound[8:])


def test_an_oversized_answer_claims_more_than_it_has() -> None:
    client, sound = the_answer(oversize=300_000_000)
    (frame,) = client.frames
    assert int.from_bytes(frame[:4], "big") == 300_000_000
    assert len(frame) == len(sound)
    assert client.hung_up is None


# Groups


def test_a_stale_generation_is_refused_as_the_coordinator_refuses_it() -> None:
    node = a_node()
    client = node.client()
    member_id = joined(client).member_id
    client.ask(a_sync(member_id), 5)
    faults = faults_of(node)
    arm(faults, "Heartbeat", "stale_generation")
    assert client.ask(a_heartbeat(member=member_id), 4).error_code == ErrorCode.ILLEGAL_GENERATION
    assert client.ask(a_heartbeat(member=member_id), 4).error_code == NONE
    arm(faults, "JoinGroup", "stale_generation")
    assert client.ask(a_join(member_id), 9).generation_id == 1
    assert client.ask(a_heartbeat(member=member_id, generation=1), 4).error_code == ErrorCode.ILLEGAL_GENERATION


def test_not_coordinator_is_true_for_another_broker_coordinates_then() -> None:
    node = a_node(node_count=2)
    first = node.client()

    def coordinator() -> int:
        answer = first.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
        found: int = answer.coordinators[0].node_id
        return found

    before = coordinator()
    arm(faults_of(node), "Heartbeat", "not_coordinator")
    client = node.client(node_id=before)
    assert client.ask(a_heartbeat(), 4).error_code == ErrorCode.NOT_COORDINATOR
    node.run_background_tasks()
    after = coordinator()
    assert after != before
    assert client.ask(a_heartbeat(), 4).error_code == ErrorCode.NOT_COORDINATOR
    assert node.client(node_id=after).ask(a_heartbeat(), 4).error_code == UNKNOWN_MEMBER


def test_a_shard_loads_for_a_while_for_all_requests_and_knows_its_groups_after_that() -> None:
    node = a_node(topics={"t": 1})
    client = node.client()
    member_id = joined(client).member_id
    client.ask(a_sync(member_id), 5)
    fault = arm(faults_of(node), "Heartbeat", {"loading": 5})
    assert client.ask(a_heartbeat(member="nobody"), 4).error_code == NONE  # as Kafka, so that members do not give up
    assert codes(client.ask(a_commit(t=1), 9)) == [("t", 0, LOADING)]
    node.pass_ms(4_999)
    assert codes(client.ask(a_commit(t=1), 9)) == [("t", 0, LOADING)]
    node.pass_ms(1)
    node.run_background_tasks()
    assert client.ask(a_heartbeat(member="nobody"), 4).error_code == UNKNOWN_MEMBER
    assert client.ask(a_heartbeat(member=member_id), 4).error_code == NONE
    assert len(fault.fired) == 1
    (loaded,) = [event for event in node.cluster.history.ring if event.type == "coordinator_loaded"]
    assert loaded.injected_fault == "Heartbeat: loading 5"


# Appends


def test_a_full_disk_fails_what_a_request_appends() -> None:
    node = a_node(topics={"t": 2}, tolerates_defects=True)
    faults = faults_of(node)
    arm(faults, "Produce", "disk_full", topic="t", partition=0)
    client = node.client()
    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert codes(client.ask(a_produce(t=2), 9)) == [("t", 0, storage_error), ("t", 1, NONE)]
    assert codes(client.ask(a_produce(t=2), 9)) == [("t", 0, NONE), ("t", 1, NONE)]
    arm(faults, "OffsetCommit", "disk_full")
    assert codes(client.ask(a_commit(t=1), 9)) == [("t", 0, ErrorCode.NOT_COORDINATOR)]
    assert codes(client.ask(a_commit(t=1), 9)) == [("t", 0, NONE)]
    assert all(getattr(error, "is_injected", False) for error in node.defects)
    assert node.cluster.partitions.before_append is None


def test_a_full_disk_fails_every_append_until_it_is_cancelled_whoever_asks() -> None:
    node = a_node(topics={"t": 1, "u": 1}, tolerates_defects=True)
    faults = faults_of(node)
    fault = arm(faults, "Append", "disk_full", "always", topic="t")
    client = node.client()
    failed = [("t", 0, ErrorCode.KAFKA_STORAGE_ERROR), ("u", 0, NONE)]
    assert codes(client.ask(a_produce(t=1, u=1), 9)) == failed
    assert codes(client.ask(a_produce(t=1, u=1), 9)) == failed
    faults.cancel(fault)
    assert codes(client.ask(a_produce(t=1, u=1), 9)) == [("t", 0, NONE), ("u", 0, NONE)]
    assert [firing.topic_partitions for firing in fault.fired] == [("t-0",), ("t-0",)]
    assert node.cluster.partitions.before_append is None


@pytest.mark.parametrize("fsync", ["never", "interval", "always"])
@pytest.mark.parametrize("on", ["Produce", "Append"])
def test_a_slow_disk_holds_back_what_depends_on_it_and_nothing_else(
    tmp_path: Path, fsync: FsyncPolicy, on: str
) -> None:
    node = a_node(topics={"t": 1, "u": 1}, storage=files_in(tmp_path), fsync=fsync)
    arm(faults_of(node), on, {"slow_fsync": 2}, topic="t")
    slow, other = node.client(), node.client()
    slow.send(a_produce(t=1), 9)
    other.send(a_produce(u=1), 9)
    node.run_background_tasks()
    assert codes(other.take(ProduceResponse)) == [("u", 0, NONE)]
    node.pass_ms(1_999)
    node.run_background_tasks()
    assert slow.is_waiting
    node.pass_ms(1)
    node.run_background_tasks()
    assert codes(slow.take(ProduceResponse)) == [("t", 0, NONE)]
    slow.send(a_produce(t=1), 9)
    node.run_background_tasks()
    assert codes(slow.take(ProduceResponse)) == [("t", 0, NONE)]
    node.close()


def test_two_slow_syncs_of_one_log_end_with_the_later() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Produce", {"slow_fsync": 2}, {"times": 2})
    first, second, reader = node.client(), node.client(), node.client()
    first.send(a_produce(t=1), 9)
    node.pass_ms(1_000)
    second.send(a_produce(t=1), 9)
    assert codes(reader.ask(a_fetch(t=1), 12)) == [("t", 0, NONE)]
    node.pass_ms(1_999)
    assert second.is_waiting
    node.pass_ms(1)
    for client in (first, second):
        assert codes(client.take(ProduceResponse)) == [("t", 0, NONE)]
    assert not node.cluster.durability.replies_wait


def test_a_topic_that_is_deleted_while_its_disk_is_slow_holds_nobody_up() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Produce", {"slow_fsync": 2})
    client = node.client()
    client.send(a_produce(t=1), 9)
    topic = node.cluster.topics.named("t")
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    node.run_background_tasks()
    assert not client.is_waiting
    node.pass_ms(2_000)
    assert not node.cluster.durability.replies_wait


def test_records_that_are_checked_in_the_background_meet_the_full_disk_too() -> None:
    node = a_node(topics={"t": 1}, tolerates_defects=True)
    arm(faults_of(node), "Produce", "disk_full")
    client = node.client()
    batch = build_batch([Record(None, bytes(2_000_000), timestamp_ms=1)], compression=Compression.GZIP)
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=batch),))
    client.send(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
    node.run_background_tasks()
    assert codes(client.take(ProduceResponse)) == [("t", 0, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert node.cluster.partitions.before_append is None


def test_a_slow_disk_under_a_shard_holds_back_its_other_groups_too() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "OffsetCommit", {"slow_fsync": 2})
    committing, reading = node.client(), node.client()
    committing.send(a_commit(t=1), 9)
    reading.send(a_heartbeat(), 4)
    assert committing.is_waiting
    assert reading.is_waiting
    node.pass_ms(2_000)
    assert codes(committing.take(OffsetCommitResponse)) == [("t", 0, NONE)]
    assert reading.take(HeartbeatResponse).error_code == UNKNOWN_MEMBER


# Where faults are not


def test_without_a_rule_and_for_other_apis_the_handlers_are_those_there_always_were() -> None:
    node = a_node()
    faults = faults_of(node)
    heartbeat, join = node.node.resolve(12, 4), node.node.resolve(11, 9)
    assert heartbeat is not None
    assert join is not None
    fault = arm(faults, "Heartbeat", "hang", "always")
    wrapped, same = node.node.resolve(12, 4), node.node.resolve(11, 9)
    assert wrapped is not None
    assert same is not None
    assert (wrapped.handler is heartbeat.handler, same.handler is join.handler) == (False, True)
    faults.cancel(fault)
    again = node.node.resolve(12, 4)
    assert again is not None
    assert again.handler is heartbeat.handler


def test_a_request_of_another_group_goes_its_way_and_a_rule_for_all_apis_takes_any() -> None:
    node = a_node()
    faults = faults_of(node)
    fault = arm(faults, "*", {"delay": 1}, {"times": 2}, client_id="slow-*")
    client = node.client("slow-one")
    client.send(a_heartbeat(), 4)
    assert client.is_waiting
    assert node.client("fast").ask(a_heartbeat(), 4).error_code == UNKNOWN_MEMBER
    node.pass_ms(1_000)
    client.take(HeartbeatResponse)
    client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
    assert client.is_waiting
    assert [firing.api for firing in fault.fired] == ["Heartbeat", "FindCoordinator"]


def test_who_is_not_authenticated_yet_meets_no_fault() -> None:
    node = a_node()
    arm(faults_of(node), "ApiVersions", "hang", "always")
    client = node.client(security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConnectionClosing, match="authentication"):
        client.send(a_heartbeat(), 4)


def test_a_dropped_produce_without_an_answer_has_done_its_work() -> None:
    node = a_node(topics={"t": 1})
    arm(faults_of(node), "Produce", {"throttle": 5})
    client = node.client()
    client.send(a_produce(acks=0, t=1), 9)
    assert isinstance(client.unread.popleft(), NoReply)


def test_the_answer_of_a_join_is_a_join_whatever_happened_to_it() -> None:
    node = a_node()
    arm(faults_of(node), "JoinGroup", {"error": "GROUP_MAX_SIZE_REACHED"})
    answer = node.client().ask(a_join(), 9)
    assert (type(answer), answer.error_code) == (JoinGroupResponse, ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert codec(JoinGroupResponse, 9).build(answer)
