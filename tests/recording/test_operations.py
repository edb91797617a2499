"""What no client asked for is recorded and replayed: faults, and what a test does to groups and topics."""

from __future__ import annotations

from kshim.faults.document import rule_from_document
from kshim.faults.faults import Faults
from kshim.faults.injection import FaultInjector
from kshim.harness import actions, records
from kshim.harness.record import Record
from kshim.recording.format import Kind
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.recording.session import Member, Recorded, a_stable_member

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def faults_of(recorded: Recorded) -> Faults:
    node = recorded.node
    faults = FaultInjector(node.cluster, list(node.nodes.values()), lambda: node.now).faults
    assert node.recorder is not None
    node.recorder.follow_faults(faults)
    return faults


def heartbeat_of(member: Member) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)


def test_a_fault_fires_again_where_it_fired() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    member = a_stable_member(recorded.node)
    rule = {"on": "OffsetCommit", "do": {"error": "COORDINATOR_LOAD_IN_PROGRESS"}, "when": {"times": 2}}
    faults_of(recorded).arm(rule_from_document(rule))
    assert [member.commit(offset) for offset in range(3)] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2 + [0]
    assert [entry.kind for entry in recorded.entries()].count(Kind.FAULT) == 2
    result = recorded.replay()
    assert (result.differences, result.notes) == ([], [])


def test_a_request_that_a_fault_delays_is_handled_when_it_was() -> None:
    recorded = Recorded(NO_DELAY)
    member = a_stable_member(recorded.node)
    fault = faults_of(recorded).arm(rule_from_document({"on": "Heartbeat", "do": {"delay": 3}, "when": "always"}))
    member.client.send(heartbeat_of(member))
    recorded.node.pass_ms(3_100)
    assert member.client.take(HeartbeatResponse).error_code == ErrorCode.NONE
    member.client.send(heartbeat_of(member))
    recorded.node.pass_ms(46_000)
    recorded.node.client()
    assert fault.fired_count >= 1
    result = recorded.replay(timing_ms=0)
    assert (result.differences, result.notes) == ([], [])


def test_a_fault_that_was_cancelled_fires_no_more() -> None:
    recorded = Recorded(NO_DELAY)
    member = a_stable_member(recorded.node)
    faults = faults_of(recorded)
    fault = faults.arm(rule_from_document({"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": "always"}))
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
    faults.cancel(fault)
    assert member.heartbeat() == ErrorCode.NONE
    assert recorded.replay().differences == []


def test_what_a_test_does_to_a_group_is_done_again() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    node = recorded.node
    member = a_stable_member(node)
    actions.trigger_rebalance(node.cluster, "g", "to see", node.now)
    assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    member.join()
    actions.expel(node.cluster, "g", "a", node.now)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    result = recorded.replay()
    assert (result.differences, result.notes, result.defects) == ([], [], [])


def test_records_written_without_a_client_are_there_again() -> None:
    recorded = Recorded(topics={"t": 1})
    node = recorded.node
    records.produce(node.cluster, "t", [Record("one", "key"), Record(None, headers={"h": b"1"})], node.now)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topic = FetchTopic(topic="t", partitions=(partition,))
    node.client().ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,)), 11)
    assert recorded.replay().differences == []
