"""A recording becomes a scenario file that holds on the coordinator; what it cannot say is listed."""

from __future__ import annotations

from io import BytesIO

from kshim.faults.document import rule_from_document
from kshim.replay.player import turns
from kshim.replay.replay import Recording
from kshim.replay.to_test import ScenarioWriter, WrittenScenario
from kshim.tools.scenario.parse import parse_scenario
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.metadata import MetadataRequest
from tests.recording.session import Member, Recorded, a_stable_member
from tests.recording.test_operations import faults_of
from tests.recording.test_recorder import session
from tests.transcripts.sans_io import play

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def written(recorded: Recorded, group: str | None = None, state: str | None = None) -> WrittenScenario:
    """The scenario of a recording, which holds."""
    recording = Recording(BytesIO(recorded.data))
    writer = ScenarioWriter(recording.start, group)
    for turn in turns(recording.entries):
        writer.add(turn)
    scenario = writer.written("A session", {} if state is None else {"g": state})
    play(parse_scenario("session", scenario.text))
    return scenario


def steps_of(scenario: WrittenScenario) -> list[str]:
    return scenario.text.partition("\n\n")[2].splitlines()


def test_a_session_becomes_steps_that_hold() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    member = a_stable_member(recorded.node)
    member.commit(5)
    recorded.node.pass_ms(46_000)
    member.heartbeat()
    assert steps_of(written(recorded, state="Empty")) == [
        "join a session=45000 rebalance=60000 protocols=range:m1 -> MEMBER_ID_REQUIRED",
        "join a session=45000 rebalance=60000 protocols=range:m1 -> NONE generation=1 leader=a members=a protocol=range",
        "sync a assign=a:x1 -> NONE assignment=x1",
        "commit a t-0=5 v=8 -> NONE",
        "advance 46000",
        "heartbeat a -> UNKNOWN_MEMBER_ID",
        "describe -> NONE state=Empty",
    ]


def test_the_header_says_what_the_broker_must_have() -> None:
    recorded = Recorded({"group.max.size": "3", "offsets.retention.minutes": "1"}, topics={"t": 2, "unused": 1})
    a_stable_member(recorded.node).commit(1)
    head = written(recorded).text.partition("\n\n")[0].splitlines()
    assert head == [
        "# A session",
        "# Everything in the recording is in here.",
        "suite: recorded",
        "rules: recorded",
        "config: group.initial.rebalance.delay.ms=0 group.max.size=3 offsets.retention.minutes=1",
        "topics: t:2",
        "run: wire 10s",
    ]


def test_members_that_wait_for_each_other_are_released_where_they_were() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    session(recorded.node)
    steps = steps_of(written(recorded))
    assert any(step.startswith("join b") and step.endswith("-> parked") for step in steps)
    assert any("| b: NONE generation=2 leader=a members=-" in step for step in steps)
    assert "heartbeat a -> REBALANCE_IN_PROGRESS" in steps


def test_a_delay_releases_who_waited_for_it() -> None:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "3000"})
    member = Member(recorded.node, "a")
    member.send_join()
    member.take_join()
    member.send_join()
    recorded.node.pass_ms(3_000)
    member.take_join()
    assert steps_of(written(recorded))[-1] == ("advance 3000 -> a: NONE generation=1 leader=a members=a protocol=range")


def test_a_member_that_comes_again_by_another_connection_is_the_same() -> None:
    recorded = Recorded(NO_DELAY)
    member = a_stable_member(recorded.node)
    again = Member(recorded.node, "a")
    again.member_id, again.generation_id = member.member_id, member.generation_id
    again.heartbeat()
    member.heartbeat()
    member.client.close()
    again.heartbeat()
    steps = steps_of(written(recorded))
    assert "ax2 is a" in steps
    assert "heartbeat ax2 -> NONE" in steps


def test_a_connection_that_closes_while_its_request_waits_is_closed() -> None:
    recorded = Recorded(NO_DELAY)
    a_stable_member(recorded.node)
    late = Member(recorded.node, "b")
    late.send_join()
    late.take_join()
    late.send_join()
    late.client.close()
    steps = steps_of(written(recorded))
    assert steps[-2:] == [
        "join b session=45000 rebalance=60000 protocols=range:m1 -> parked",
        "close b",
    ]


def test_several_groups_have_names_and_one_may_be_chosen() -> None:
    recorded = Recorded(NO_DELAY)
    for group in ("g", "h"):
        a_stable_member(recorded.node, group=group).heartbeat()
    assert any(step.startswith("heartbeat b group=group2") for step in steps_of(written(recorded)))
    chosen = written(recorded, group="h")
    assert len(steps_of(chosen)) == 4
    assert chosen.notes == ["2 JoinGroup requests", "1 SyncGroup request", "1 Heartbeat request"]


def test_heartbeats_that_only_keep_a_session_are_left_out_and_counted() -> None:
    recorded = Recorded(NO_DELAY)
    member = a_stable_member(recorded.node)
    for _ in range(100):
        recorded.node.pass_ms(3_000)
        member.heartbeat()
    scenario = written(recorded, state="Stable")
    assert scenario.step_count < 30
    assert len(scenario.notes) == 1
    assert "heartbeats that only kept sessions" in scenario.notes[0]


def test_what_a_scenario_cannot_say_is_listed() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    member = a_stable_member(recorded.node)
    faults_of(recorded).arm(rule_from_document({"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": "once"}))
    member.heartbeat()
    client = recorded.node.client("admin")
    client.ask(MetadataRequest(topics=None), 12)
    client.ask(DescribeGroupsRequest(groups=("g", "h")), 5)
    scenario = written(recorded)
    assert scenario.notes == [
        "1 Metadata request",
        "request 4, which met an injected fault: Heartbeat: error NOT_COORDINATOR (firing 1) on Heartbeat v4 of a at "
        f"127.0.0.1 (group g, member {member.member_id})",
        "request 6, DescribeGroups v5: it is about several groups",
    ]
    assert all(f"# - {note}" in scenario.text for note in scenario.notes)


def test_requests_of_the_new_protocols_are_left_out_and_named() -> None:
    recorded = Recorded(NO_DELAY, topics={"t": 1})
    a_stable_member(recorded.node)
    joining = ConsumerGroupHeartbeatRequest(
        group_id="h",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    recorded.node.client("other").ask(joining, 1)
    assert written(recorded).notes == ["1 ConsumerGroupHeartbeat request"]
