"""ConsumerGroupHeartbeat as a client sees it. Epochs, errors and sentences are those of a live 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.consumer.updates import (
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    TargetEpoch,
    Update,
    parse_update,
)
from kshim.coordinator.groups.events import (
    Cause,
    GroupConverted,
    MemberAdded,
    MemberRemoved,
    MemberReplaced,
    TargetComputed,
    Transition,
)
from kshim.coordinator.step import Now, RequestContext
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kshim_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kshim_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.records.record import iter_records
from tests.coordinator.harness import Call, Sim, Topics
from tests.coordinator.peers import Peer, fetched
from tests.coordinator.rules import covers

INTERVAL_MS = 1_000
SESSION_MS = 45_000


class World(Sim):
    """Members are named by their ids; all are in group `g`."""

    def __init__(self, topics: dict[str, int] | None = None, **config: Any) -> None:
        super().__init__(topics or {"t": 3, "u": 4}, **config)

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: dict[str, list[int]] | None = None,
        names: tuple[str, ...] | None = None,
        timeout_ms: int = -1,
        version: int = 1,
        group_id: str = "g",
        client_id: str | None = "client",
        **fields: Any,
    ) -> Call[ConsumerGroupHeartbeatResponse]:
        partitions = None
        if owned is not None:
            partitions = tuple(
                TopicPartitions(topic_id=self.id_of(name), partitions=tuple(indexes)) for name, indexes in owned.items()
            )
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=names,
            topic_partitions=partitions,
            **fields,
        )
        return self.send(request, version, client_id=client_id)

    def join(self, member_id: str, *names: str, **fields: Any) -> Call[ConsumerGroupHeartbeatResponse]:
        return self.heartbeat(member_id, 0, **{"owned": {}, "names": names, "timeout_ms": 60_000, **fields})

    def beat(self, member_id: str, **fields: Any) -> Call[ConsumerGroupHeartbeatResponse]:
        """In the epoch that the member is in."""
        found = {member.member_id: member.member_epoch for member in self.described().members}
        return self.heartbeat(member_id, found[member_id], **fields)

    def id_of(self, name: str) -> bytes:
        found = self.topics.topic_id(name)
        assert found is not None
        return found

    def told(self, call: Call[ConsumerGroupHeartbeatResponse]) -> tuple[int, dict[str, list[int]] | None]:
        """Epoch and assignment of an answer without error; None: the assignment has not changed."""
        assert call.error is ErrorCode.NONE, call.reply
        assignment = call.reply.assignment
        if assignment is None:
            return call.reply.member_epoch, None
        return call.reply.member_epoch, {
            self.topics.topic_name(topic.topic_id) or "?": list(topic.partitions)
            for topic in assignment.topic_partitions
        }

    def described(self, group_id: str = "g") -> DescribedGroup:
        return self.ask(ConsumerGroupDescribeRequest(group_ids=(group_id,)), 1).groups[0]

    def state(self) -> tuple[str, int, int]:
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def updates(self) -> list[list[Update]]:
        """What was written, by batch."""
        batches = []
        for log in self.logs.values():
            for batch in log:
                found = [parse_update(record.key or b"", record.value) for record in iter_records(batch)]
                batches.append([update for entry in found if entry is not None for update in (entry[1],)])
        return batches


def refusal(call: Call[ConsumerGroupHeartbeatResponse]) -> tuple[ErrorCode, str | None]:
    reply = call.reply
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment) == (None, 0, 0, None)
    return call.error, reply.error_message


# Checks


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": "", "member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {"t": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"version": 0, "member_id": "", "epoch": -1}, "MemberId can't be empty."),
        ({"version": 0, "member_id": "", "epoch": 5}, "MemberId can't be empty."),
    ],
)
def test_a_request_that_cannot_be_is_refused_with_kafkas_sentence(fields: dict[str, Any], sentence: str) -> None:
    world = World()
    join = {"member_id": "a", "epoch": 0, "owned": {}, "names": ("t",), "timeout_ms": 100, **fields}
    assert refusal(world.heartbeat(**join)) == (ErrorCode.INVALID_REQUEST, sentence)
    assert not world.logs


def test_only_a_rebalance_timeout_of_minus_one_is_none() -> None:
    assert World().join("a", "t", timeout_ms=-2).error is ErrorCode.NONE


def test_an_assignor_that_is_unknown_is_refused() -> None:
    call = World().join("a", "t", server_assignor="nope")
    sentence = "ServerAssignor nope is not supported. Supported assignors: uniform, range."
    assert refusal(call) == (ErrorCode.UNSUPPORTED_ASSIGNOR, sentence)


def test_who_does_not_join_needs_a_group_and_to_be_in_it() -> None:
    world = World()
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(world.heartbeat("a", 5)) == (not_found, "Consumer group g not found.")
    assert refusal(world.heartbeat("a", -1)) == (not_found, "Group g not found.")
    assert refusal(world.heartbeat("a", -2, instance_id="i")) == (not_found, "Group g not found.")
    world.join("a", "t")
    unknown = (ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g.")
    assert refusal(world.heartbeat("b", 2)) == unknown
    assert refusal(world.heartbeat("b", -1)) == unknown


def test_a_group_that_is_full_takes_nobody_in() -> None:
    world = World(group_consumer_max_size=1)
    world.join("a", "t")
    sentence = "The consumer group has reached its maximum capacity of 1 members."
    assert refusal(world.join("b", "t")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)
    assert world.told(world.join("a", "t"))[0] == 2


# One member


def test_the_first_member_gets_everything_in_the_answer_to_its_join() -> None:
    world = World()
    call = world.join("a", "t")
    assert (call.reply.member_id, call.reply.heartbeat_interval_ms) == ("a", 5_000)
    assert world.told(call) == (2, {"t": [0, 1, 2]})
    assert world.state() == ("Stable", 2, 2)
    assert [[type(update) for update in batch] for batch in world.updates()] == [
        [MemberMetadata, GroupEpoch, MemberTarget, TargetEpoch, MemberCurrent]
    ]


def test_without_an_id_a_client_of_v0_is_given_one() -> None:
    call = World().join("", "t", version=0)
    assert call.reply.member_id


def test_a_heartbeat_without_news_is_not_written_and_answered_without_an_assignment() -> None:
    world = World()
    world.join("a", "t")
    assert world.told(world.heartbeat("a", 2)) == (2, None)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1, 2]})) == (2, None)
    assert len(world.updates()) == 1


def test_a_member_that_speaks_with_another_client_id_has_that_from_then_on() -> None:
    world = World()
    world.join("a", "t")
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
    assert world.told(world.send(request, 1, client_id="another")) == (2, None)
    assert world.described().members[0].client_id == "another"
    assert world.state() == ("Stable", 2, 2)


def test_a_full_request_is_answered_with_the_assignment_and_a_join_is_repeatable() -> None:
    world = World()
    world.join("a", "t")
    full = world.heartbeat("a", 2, names=("t",), owned={"t": [0]}, timeout_ms=60_000)
    assert world.told(full) == (2, {"t": [0, 1, 2]})
    assert world.told(world.join("a", "t")) == (2, {"t": [0, 1, 2]})
    assert len(world.updates()) == 1


def test_a_member_that_subscribes_to_nothing_raises_no_epoch() -> None:
    world = World()
    assert world.told(world.join("a")) == (1, {})
    assert world.state() == ("Stable", 1, 1)
    assert world.told(world.join("b", server_assignor="range")) == (2, {})
    world.restart()
    assert world.state() == ("Reconciling", 2, 2)


def test_rack_and_timeout_are_written_without_an_epoch_and_an_assignor_with_one() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", 2, rack_id="r", timeout_ms=5)
    assert world.state() == ("Stable", 2, 2)
    assert world.described().members[0].rack_id == "r"
    world.heartbeat("a", 2, names=("t", "t"))
    assert world.state() == ("Stable", 2, 2)
    world.heartbeat("a", 2, server_assignor="range")
    assert world.state() == ("Assigning", 3, 2)
    assert world.described().assignor_name == "range"


def test_an_assignor_raises_the_epoch_only_if_the_group_does_not_use_it() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", 2, server_assignor="uniform")
    assert world.state()[1] == 2
    world.heartbeat("a", 2, server_assignor="range")
    assert world.state()[1] == 3
    world.join("b", "t")
    world.heartbeat("b", 2, server_assignor="range")
    assert world.state()[1] == 4


def test_an_assignor_that_is_outvoted_raises_no_epoch() -> None:
    world = World()
    for member in ("a", "b", "c"):
        world.join(member, "t", server_assignor="uniform")
    epoch = world.state()[1]
    world.beat("c", server_assignor="range")
    world.beat("c")
    assert world.state()[1] == epoch


def test_two_members_want_two_assignors_so_each_heartbeat_of_one_raises_the_epoch() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.join("a", "t", server_assignor="range")
    world.join("b", "t", server_assignor="uniform")
    for expected in (4, 5):
        world.beat("b")
        world.beat("a")
        assert (world.state()[1], world.described().assignor_name) == (expected, "uniform")
    world.join("c", "t", server_assignor="uniform")
    epoch = world.state()[1]
    world.beat("a")
    assert world.state()[1] == epoch


def targets(world: World) -> dict[str, set[str]]:
    """The topics that each member is to have."""
    return {
        member.member_id: {topic.topic_name for topic in member.target_assignment.topic_partitions}
        for member in world.described().members
    }


def test_nobody_asks_so_the_first_assignor_of_the_configuration_is_used() -> None:
    world = World({"t": 1, "u": 1}, group_consumer_assignors=("range", "uniform"))
    world.join("a", "t", "u")
    assert world.described().assignor_name == "range"
    assert [event.assignor for event in world.events if isinstance(event, TargetComputed)] == ["range"]
    world.heartbeat("a", 2, server_assignor="range")
    assert world.state()[1] == 2
    world.heartbeat("a", 2, server_assignor="uniform")
    assert world.state()[1] == 3


@pytest.mark.parametrize(("first", "second"), [("uniform", "range"), ("range", "uniform")])
def test_of_assignors_with_equal_votes_the_new_one_is_used_until_the_next_target(first: str, second: str) -> None:
    world = World({"t": 1, "u": 1}, group_consumer_assignment_interval_ms=0)
    world.join("a", "t", "u", server_assignor=first)
    world.join("b", "t", "u", server_assignor=second)
    by_range, uniformly = [{"a": {"t", "u"}, "b": set()}, {"a": {"t"}, "b": {"u"}}]
    assert targets(world) == (by_range if second == "range" else uniformly)
    assert [event.assignor for event in world.events if isinstance(event, TargetComputed)] == [first, second]
    assert world.described().assignor_name == "uniform"
    world.join("c", "t", "u")
    assert sorted(len(topics) for topics in targets(world).values()) == [0, 1, 1]


def test_epochs_that_are_not_the_members_are_fenced() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.join("a", "t", "u")) == (3, {"t": [0, 1, 2], "u": [0, 1, 2, 3]})
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(world.heartbeat("a", 4)) == (
        fenced,
        "The consumer group member has a greater member epoch (4) than the one known by the group coordinator (3). The "
        "member must abandon all its partitions and rejoin.",
    )
    assert refusal(world.heartbeat("a", 1, owned={}))[0] is fenced


def test_who_lost_an_answer_goes_on_with_its_epoch_before_when_it_owns_no_more_than_it_may() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.join("a", "t", "u")
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1, 2]})) == (3, None)
    assert refusal(world.heartbeat("a", 2))[0] is fenced
    world.join("b", "t")
    assert refusal(world.heartbeat("a", 2, owned={"t": [9]}))[0] is fenced


def test_a_smaller_subscription_takes_partitions_away_before_the_next_target() -> None:
    world = World()
    world.join("a", "t", "u")
    owned = {"t": [0, 1, 2], "u": [0, 1, 2, 3]}
    assert world.told(world.heartbeat("a", 2, names=("t",), owned=owned)) == (2, {"t": [0, 1, 2]})
    assert world.state() == ("Assigning", 3, 2)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1, 2]})) == (2, None)
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1, 2]})) == (3, None)
    assert world.state() == ("Stable", 3, 3)


def test_a_topic_that_is_made_later_is_assigned_with_the_next_heartbeat() -> None:
    world = World()
    assert world.told(world.join("a", "t", "later")) == (2, {"t": [0, 1, 2]})
    world.pass_ms(INTERVAL_MS)
    world.topics.topics["later"] = (1, 0)
    assert world.told(world.heartbeat("a", 2)) == (3, {"t": [0, 1, 2], "later": [0]})


def test_a_topic_that_is_made_is_noticed_with_the_next_heartbeat_and_named_as_the_cause() -> None:
    world = World()
    world.join("a", "t", "later")
    world.topics.topics["later"] = (1, 0)
    world.heartbeat("a", 2)
    assert world.state() == ("Assigning", 3, 2)
    assert world.transitions()[-1] == "Stable -> Assigning topics-changed"


def test_each_of_many_topics_that_are_made_one_after_the_other_is_noticed() -> None:
    world = World()
    names = [f"later-{number}" for number in range(10)]
    assert world.told(world.join("a", *names)) == (2, {})
    for number, name in enumerate(names):
        world.pass_ms(INTERVAL_MS)
        world.topics.topics[name] = (1, 0)
        told = world.told(world.heartbeat("a", 2 + number))
        assert told == (3 + number, {found: [0] for found in names[: number + 1]})


def test_a_topic_that_grew_while_nobody_led_the_group_is_noticed() -> None:
    class Catalog(Topics):
        version = 0  # as of a broker that has just started

    world = World()
    world.join("a", "t")
    world.topics = Catalog({"t": 4})
    world.restart()
    world.heartbeat("a", 2)
    assert world.state() == ("Assigning", 3, 2)


# Several members


def test_two_members_share_step_by_step_as_on_a_live_kafka() -> None:
    world = World()
    world.join("a", "t")
    assert world.told(world.join("b", "t")) == (2, {})
    assert world.state() == ("Assigning", 3, 2)
    assert world.told(world.heartbeat("a", 2)) == (2, None)
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("a", 2)) == (2, {"t": [0, 1]})
    assert world.state() == ("Reconciling", 3, 3)
    a = next(member for member in world.described().members if member.member_id == "a")
    assert a.assignment.topic_partitions[0].partitions == (0, 1, 2)
    assert a.target_assignment.topic_partitions[0].partitions == (0, 1)
    assert world.told(world.heartbeat("b", 2, owned={})) == (3, None)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1]})) == (3, None)
    assert world.told(world.heartbeat("b", 3, owned={})) == (3, {"t": [2]})
    assert world.state() == ("Stable", 3, 3)


def test_a_partition_given_up_for_a_member_that_is_gone_comes_back_at_once() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("a", 2)) == (2, {"t": [0, 1]})
    world.heartbeat("b", -1)
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1]})) == (4, {"t": [0, 1, 2]})
    assert world.state() == ("Stable", 4, 4)


def test_a_member_that_leaves_is_told_so_and_the_others_get_its_partitions() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    left = world.heartbeat("a", -1)
    assert world.told(left) == (-1, None)
    assert (left.reply.member_id, left.reply.heartbeat_interval_ms) == ("a", 0)
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("b", 2)) == (4, {"t": [0, 1, 2]})


def test_who_joins_a_group_that_became_empty_gets_its_partitions_at_once() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    assert world.state() == ("Empty", 3, 3)
    assert world.told(world.join("b", "t")) == (4, {"t": [0, 1, 2]})


# Time


def test_a_member_that_is_not_heard_of_is_removed_when_its_session_is_over() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(SESSION_MS - 1)
    world.heartbeat("a", 2)
    world.pass_ms(SESSION_MS - 1)
    assert world.state()[0] == "Stable"
    world.pass_ms(1)
    assert world.state() == ("Empty", 3, 3)
    assert refusal(world.heartbeat("a", 2))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed() -> None:
    world = World()
    world.join("a", "t", timeout_ms=1_500)
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.pass_ms(1_499)
    assert world.told(world.heartbeat("a", 2)) == (2, None)
    world.pass_ms(1)
    assert refusal(world.heartbeat("a", 2, owned={"t": [0, 1]}))[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state() == ("Assigning", 4, 3)


def test_a_member_that_gave_up_its_partitions_is_not_removed() -> None:
    world = World()
    world.join("a", "t", timeout_ms=1_500)
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.heartbeat("a", 2, owned={"t": [0, 1]})
    world.pass_ms(2_000)
    assert world.told(world.heartbeat("a", 3)) == (3, None)


def test_a_removal_that_could_not_be_written_is_tried_again() -> None:
    world = World()
    world.join("a", "t")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.pass_ms(SESSION_MS)
    assert world.state()[0] == "Stable"
    world.pass_ms(500)
    assert world.state()[0] == "Empty"


# What is not written, and what is read back


def test_what_could_not_be_written_has_not_happened() -> None:
    world = World()
    world.fail_appends(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refusal(world.join("a", "t"))[0] is ErrorCode.NOT_COORDINATOR
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.told(world.join("a", "t")) == (2, {"t": [0, 1, 2]})


def test_a_group_goes_on_after_a_crash_with_full_sessions() -> None:
    world = World()
    world.join("a", "t", timeout_ms=1_500)
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    before = world.described()
    world.pass_ms(1_000)
    world.restart()
    assert world.described() == before
    world.pass_ms(1_499)
    assert world.told(world.heartbeat("a", 2, owned={"t": [0, 1]})) == (3, None)
    world.pass_ms(SESSION_MS - 1_500)
    assert world.told(world.heartbeat("b", 2)) == (3, {"t": [2]})


# Static members


def test_a_static_member_keeps_its_place_while_it_is_away() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    assert world.told(world.heartbeat("a", -2, instance_id="i")) == (-2, None)
    assert world.state() == ("Reconciling", 2, 2)
    assert world.described().members[0].member_epoch == -2
    assert world.told(world.join("b", "t", instance_id="i")) == (2, {"t": [0, 1, 2]})
    assert world.state() == ("Stable", 2, 2)
    owned_by = (ErrorCode.FENCED_INSTANCE_ID, "Static member a with instance id i was fenced by member b.")
    assert refusal(world.heartbeat("a", 2, instance_id="i")) == owned_by
    world.restart()
    assert world.state() == ("Stable", 2, 2)


def test_a_static_member_that_comes_back_wants_what_it_wanted_unless_it_says_otherwise() -> None:
    world = World()
    world.join("a", "t", instance_id="i", rack_id="r", server_assignor="range")
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", "t", instance_id="i")
    assert world.described().assignor_name == "range"
    assert [member.rack_id for member in world.described().members] == ["r"]


def test_members_that_await_the_next_target_are_answered_without_anything_written() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    before = len(world.updates())
    assert world.told(world.heartbeat("a", 2)) == (2, None)
    assert len(world.updates()) == before
    world.pass_ms(INTERVAL_MS)
    assert world.told(world.heartbeat("a", 2)) == (2, {"t": [0, 1]})


def test_an_instance_id_is_released_only_by_its_member() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    unreleased = ErrorCode.UNRELEASED_INSTANCE_ID
    for member_id in ("b", "a"):
        assert refusal(world.join(member_id, "t", instance_id="i")) == (
            unreleased,
            f"Static member {member_id} with instance id i cannot join the group because the instance id is owned by a "
            "member.",
        )
    assert refusal(world.heartbeat("b", -2, instance_id="i"))[0] is ErrorCode.FENCED_INSTANCE_ID
    unknown = (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown.")
    assert refusal(world.heartbeat("a", 2, instance_id="j")) == unknown


def test_a_member_may_change_its_instance_id() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    assert world.told(world.join("a", "t", instance_id="k"))[0] == 2
    assert refusal(world.heartbeat("a", 2, instance_id="i"))[1] == "Instance id i is unknown."
    assert world.told(world.heartbeat("a", -1)) == (-1, None)
    assert world.state()[0] == "Empty"


def test_a_static_member_that_does_not_come_back_is_removed_when_its_session_is_over() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.pass_ms(SESSION_MS)
    assert world.state()[0] == "Empty"


def test_a_static_member_that_comes_back_with_another_wish_raises_the_epoch() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    assert world.told(world.join("b", "u", instance_id="i")) == (2, {})
    assert world.state() == ("Assigning", 3, 2)


def test_who_leaves_with_the_instance_id_of_another_member_is_fenced() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.join("b", "t")
    fenced = (ErrorCode.FENCED_INSTANCE_ID, "Static member b with instance id i was fenced by member a.")
    assert refusal(world.heartbeat("b", -1, instance_id="i")) == fenced
    assert refusal(world.heartbeat("b", -1, instance_id="j")) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Instance id j is unknown.",
    )
    assert world.told(world.heartbeat("a", -1, instance_id="i")) == (-1, None)


# Both protocols


def test_an_empty_classic_group_becomes_one_of_the_new_protocol_and_keeps_its_offsets() -> None:
    world = World()
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(
            OffsetCommitRequestTopic(
                name="t",
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=""),
                ),
            ),
        ),
    )
    world.send(commit, 9)
    assert world.told(world.join("a", "t")) == (2, {"t": [0, 1, 2]})
    assert [type(event) for event in world.events][:1] == [GroupConverted]
    assert world.shard().classic_groups == {}
    world.restart()
    assert world.state() == ("Stable", 2, 2)
    assert fetched(world)["t", 0].committed_offset == 5


def test_an_empty_group_of_the_new_protocol_becomes_classic() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    classic = Peer(world, "c", instance_id="i")
    assert classic.take(classic.join()).generation_id == 1
    assert [event.to_kind for event in world.events if isinstance(event, GroupConverted)] == ["classic"]
    assert world.shard().classic_groups == {"g": world.group}
    assert refusal(world.heartbeat("a", 5))[1] == "Group g is not a consumer group."
    world.restart()
    assert world.group.generation_id == 0


@covers("check.consumer-group-describe.empty-group-id")
def test_a_group_without_an_id_cannot_be_described() -> None:
    assert World().described("").error_code == ErrorCode.INVALID_GROUP_ID


def test_an_administrator_removes_members_with_leave_group() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.join("b", "t")
    gone = (
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="b", reason="why not"),
        MemberIdentity(member_id="c"),
    )
    reply = world.send(LeaveGroupRequest(group_id="g", members=gone), 5).reply
    assert [member.error_code for member in reply.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.state() == ("Empty", 4, 4)


def test_a_topic_that_has_grown_is_not_forgotten_when_the_new_epoch_cannot_be_written() -> None:
    world = World()
    world.join("a", "t")
    world.topics.topics["t"] = (4, 0)
    world.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.heartbeat("a", 2).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state() == ("Stable", 2, 2)
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    assert world.state()[1:] == (3, 3)


# What is reported


def test_members_and_states_are_reported_with_their_cause() -> None:
    world = World()
    world.join("a", "t", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", "t", instance_id="i")
    world.heartbeat("b", -1)
    seen = [event for event in world.events if isinstance(event, MemberAdded | MemberReplaced | MemberRemoved)]
    assert [type(event) for event in seen] == [MemberAdded, MemberReplaced, MemberRemoved]
    assert isinstance(seen[0], MemberAdded)
    assert not seen[0].had_id  # it made its id itself
    assert isinstance(seen[2], MemberRemoved)
    assert not seen[2].was_pending
    states = [f"{event.previous} {event.new} {event.cause}" for event in world.events if isinstance(event, Transition)]
    assert states == [
        "Empty Stable member-joined",
        "Stable Reconciling member-left",
        "Reconciling Stable static-member-replaced",
        "Stable Empty member-left",
    ]


def test_a_new_target_is_reported_with_what_it_takes_and_gives() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.join("b", "t")
    targets = [event for event in world.events if isinstance(event, TargetComputed)]
    assert [
        (event.assignor, [(change.member.member_id, change.lost, change.gained) for change in event.changes])
        for event in targets
    ] == [("uniform", [("a", 0, 3)]), ("uniform", [("a", 1, 0), ("b", 0, 1)])]


class _ElsewhereContext(RequestContext):
    """A request that came to a broker that leads nothing any more."""

    __slots__ = ("leads_shard",)

    def __init__(self, now: Now) -> None:
        super().__init__(1, "client", "/127.0.0.1", now)
        self.leads_shard = lambda _topic, _partition: False


def test_a_broker_that_leads_a_group_no_longer_refuses_its_heartbeats_although_it_knows_it() -> None:
    world = World()
    world.join("a", "t")
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
    call = Call(request, 1)
    world.apply(world.coordinator.consumer_group_heartbeat(request, _ElsewhereContext(world.now), call))
    assert call.error is ErrorCode.NOT_COORDINATOR


def test_what_changes_no_target_reports_none() -> None:
    world = World()
    world.join("a", "t")
    before = len(world.events)
    world.beat("a", timeout_ms=70_000)
    assert [update for batch in world.updates()[1:] for update in batch]
    assert not any(isinstance(event, TargetComputed) for event in world.events[before:])


def test_steps_of_members_are_routine_and_what_happens_to_a_group_is_not() -> None:
    world = World()
    world.join("a", "t")
    routine = {type(event).__name__: event.is_routine for event in world.events}
    assert routine == {
        "MemberAdded": False,
        "EpochRaised": False,
        "TargetComputed": False,
        "MemberReconciled": True,
        "Transition": False,
    }


def test_a_removal_is_reported_with_the_time_that_was_over() -> None:
    world = World()
    world.join("a", "t", timeout_ms=1_500)
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)  # it is to give up a partition, and does not
    world.pass_ms(SESSION_MS)
    removed = [(event.member.member_id, event.cause) for event in world.events if isinstance(event, MemberRemoved)]
    assert removed == [("a", Cause.REBALANCE_TIMEOUT), ("b", Cause.SESSION_EXPIRED)]


def test_a_description_says_whose_the_members_are() -> None:
    world = World()
    world.join("a", "t", client_id="billing")
    world.join("b", "t", client_id=None)
    members = world.described().members
    assert [(member.member_id, member.client_id, member.client_host) for member in members] == [
        ("a", "billing", "/127.0.0.1"),
        ("b", "", "/127.0.0.1"),
    ]


@pytest.mark.parametrize(("is_asked", "operations"), [(True, 3400), (False, -2147483648)])
def test_operations_are_described_to_those_who_ask(is_asked: bool, operations: int) -> None:
    world = World()
    world.join("a", "t")
    request = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=is_asked)
    assert world.ask(request, 1).groups[0].authorized_operations == operations


def test_groups_without_an_id_are_described_first() -> None:
    world = World()
    world.join("a", "t")
    groups = world.ask(ConsumerGroupDescribeRequest(group_ids=("g", "", "h")), 1).groups
    assert [(group.group_id, group.error_code) for group in groups] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("g", ErrorCode.NONE),
        ("h", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
