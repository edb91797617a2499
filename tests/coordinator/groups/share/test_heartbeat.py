"""ShareGroupHeartbeat as a client sees it. Epochs, errors, sentences and the order of records are those of a live 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.updates import (
    Current,
    GroupEpoch,
    MemberCurrent,
    MemberMetadata,
    MemberTarget,
    PartitionStates,
    TargetEpoch,
)
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.list_groups import ListGroupsRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.groups.share.world import INTERVAL_MS, SESSION_MS, World, places
from tests.coordinator.harness import Sim


def test_the_first_member_gets_partitions_when_their_state_is_there_and_the_interval_is_over() -> None:
    world = World()
    assert world.join("a", "t") == "2 nothing"
    world.pass_ms(INTERVAL_MS - 1)
    assert world.beat("a", 2) == "2 -"
    world.pass_ms(1)
    assert world.beat("a", 2) == "3 t012"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 3) == "3 -"


def test_the_second_member_shares_at_once_and_the_first_learns_it_with_its_next_heartbeat() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    world.pass_ms(INTERVAL_MS)
    assert world.join("b", "t") == "4 t0"
    assert world.beat("a", 3) == "4 t12"


def test_who_has_one_more_does_not_depend_on_who_came_first() -> None:
    world = World()
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    assert world.beat("b", 2) == "3 t012"
    world.pass_ms(INTERVAL_MS)
    assert len(world.join("a", "t")) == len("4 t01")  # in a hash table of Java `a` comes before `b`
    assert len(world.beat("b", 3)) == len("4 t0")


def test_a_member_that_joins_within_the_interval_is_at_the_target_before_it() -> None:
    world = World()
    world.join("a", "t")
    assert world.join("b", "t") == "2 nothing"
    assert world.described().group_epoch == 3
    world.pass_ms(INTERVAL_MS)
    assert world.beat("b", 2) == "3 t1"
    assert world.beat("a", 2) == "3 t02"


def test_more_members_than_partitions_share_them() -> None:
    world = World({"t": 2})
    for member_id in "abcd":
        world.join(member_id, "t")
    world.pass_ms(INTERVAL_MS)
    found = [world.beat(member_id, 2) for member_id in "abcd"]
    assert sorted(found) == ["5 t0", "5 t0", "5 t1", "5 t1"]


def test_partitions_without_state_are_assigned_to_nobody() -> None:
    world = World()
    world.holds_state = True
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "2 -"
    world.make_state()
    assert world.beat("a", 2) == "3 t012"


def test_state_is_asked_for_once_with_the_epoch_of_the_group() -> None:
    world = World()
    world.holds_state = True
    world.join("a", "t", "u")
    world.join("b", "t")
    (request,) = world.make_state()
    assert request.group_id == "g"
    found = {
        (topic.topic_id, one.partition): (one.state_epoch, one.start_offset)
        for topic in request.topics
        for one in topic.partitions
    }
    assert found == dict.fromkeys(places("t", 0, 1, 2) | places("u", 0, 1), (2, -1))


def test_partitions_that_are_added_later_begin_at_their_beginning() -> None:
    world = World()
    world.join("a", "t")
    world.topics.topics["t"] = (5, 0)
    world.holds_state = True
    world.beat("a", 2)
    (request,) = world.make_state()
    (topic,) = request.topics
    assert [(one.partition, one.state_epoch, one.start_offset) for one in topic.partitions] == [(3, 3, 0), (4, 3, 0)]


def test_state_that_could_not_be_made_is_asked_for_again() -> None:
    world = World()
    world.holds_state = True
    world.join("a", "t")
    world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.beat("a", 2)
    assert len(world.make_state()) == 1
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"


def test_state_that_was_made_but_could_not_be_written_down_is_asked_for_again() -> None:
    world = World()
    world.holds_state = True
    world.join("a", "t")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert len(world.make_state()) == 1
    world.beat("a", 2)
    assert len(world.make_state()) == 1
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"


def test_the_first_join_is_one_batch_in_kafkas_order_and_state_another() -> None:
    world = World()
    world.join("a", "t")
    first, second = world.written()
    assert [type(update) for update in first] == [
        MemberMetadata,
        GroupEpoch,
        MemberTarget,
        TargetEpoch,
        MemberCurrent,
        PartitionStates,
    ]
    assert first[2] == MemberTarget("a", frozenset())
    assert first[4] == MemberCurrent("a", Current(2, 0, frozenset()))
    (states,) = second
    assert isinstance(states, PartitionStates)
    assert states.states is not None
    assert states.states.are_initialized() == places("t", 0, 1, 2)
    assert not states.states.initializing


def test_leaving_is_told_in_kafkas_order_and_the_last_member_ends_the_target() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    world.heartbeat("b", -1)
    assert [type(update) for update in world.written()[-1]] == [MemberCurrent, MemberTarget, MemberMetadata, GroupEpoch]
    left = world.heartbeat("a", -1).reply
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("a", -1, 0)
    last = world.written()[-1]
    assert [type(update) for update in last] == [MemberCurrent, MemberTarget, MemberMetadata, GroupEpoch, TargetEpoch]
    assert isinstance(last[3], GroupEpoch)
    assert isinstance(last[4], TargetEpoch)
    assert last[3].value is not None
    assert last[4].value is not None
    assert (last[3].value.epoch, last[3].value.metadata_hash) == (5, 0)
    assert (last[4].value.assignment_epoch, last[4].value.assignment_timestamp) == (5, 0)
    assert world.described().group_state == "Empty"


def test_who_joins_an_empty_group_gets_its_partitions_at_once() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    assert world.join("b", "t") == "4 t012"


def test_a_member_takes_what_it_subscribes_to_and_no_more() -> None:
    world = World()
    world.join("a", "t", "u")
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012 u01"
    assert world.told(world.heartbeat("a", 3, ("u",))) == "3 u01"
    assert world.described().group_epoch == 4
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 3) == "4 -"


def test_members_with_different_subscriptions_share_topic_by_topic() -> None:
    world = World()
    world.join("a", "t", "u")
    world.join("b", "u")
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012 u0"
    assert world.beat("b", 2) == "3 u1"


def test_a_topic_that_appears_raises_the_epoch() -> None:
    world = World()
    world.join("a", "t", "later")
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"
    world.topics.topics["later"] = (1, 0)
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 3) == "4 -"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 4) == "5 later0 t012"


def test_a_deleted_topic_is_forgotten_and_read_by_nobody() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    del world.topics.topics["t"]
    for step in world.coordinator.topics_deleted(["t"], world.now):
        world.apply(step)
    group = world.shard().share_group("g")
    assert not group.states.are_initialized()
    assert world.beat("a", 3) == "3 nothing"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 3) == "4 -"


def test_joining_again_changes_nothing_and_says_what_the_member_reads() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    count = len(world.written())
    assert world.join("a", "t") == "3 t012"
    assert world.told(world.heartbeat("a", 3, ("t",))) == "3 t012"
    assert len(world.written()) == count


def test_another_rack_or_client_is_recorded_and_raises_no_epoch() -> None:
    world = World()
    world.join("a", "t")
    assert world.told(world.heartbeat("a", 2, rack_id="r")) == "2 -"
    assert world.told(world.heartbeat("a", 2, client_id="other")) == "2 -"
    assert [type(update) for batch in world.written()[-2:] for update in batch] == [MemberMetadata, MemberMetadata]
    (member,) = world.described().members
    assert (member.rack_id, member.client_id) == ("r", "other")


def test_the_previous_epoch_is_accepted_and_others_are_fenced() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    assert world.beat("a", 2) == "3 -"
    assert world.beat("a", 1) == (
        "FENCED_MEMBER_EPOCH The share group member has a smaller member epoch (1) than the one known by the group "
        "coordinator (3), and it does not match the previous member epoch (2). The member must abandon all its "
        "partitions and rejoin."
    )
    assert world.beat("a", 99) == (
        "FENCED_MEMBER_EPOCH The share group member has a greater member epoch (99) than the one known by the group "
        "coordinator (3). The member must abandon all its partitions and rejoin."
    )


@pytest.mark.parametrize(
    ("group_id", "member_id", "epoch", "names", "rack_id", "told"),
    [
        ("g", "", 0, ("t",), None, "INVALID_REQUEST None"),
        ("g", "x" * 37, 0, ("t",), None, "INVALID_REQUEST None"),
        ("g", " ", 0, ("t",), None, "INVALID_REQUEST MemberId can't be empty."),
        (" ", "a", 0, ("t",), None, "INVALID_REQUEST GroupId can't be empty."),
        ("g", "a", 0, ("t",), "", "INVALID_REQUEST RackId can't be empty."),
        ("g", "a", 0, None, None, "INVALID_REQUEST SubscribedTopicNames must be set in first request."),
        ("g", "a", 0, (), None, "INVALID_REQUEST SubscribedTopicNames must be set in first request."),
        ("g", "a", -2, None, None, "INVALID_REQUEST MemberEpoch is invalid."),
        ("g", "a", 1, None, None, "GROUP_ID_NOT_FOUND Share group g not found."),
        ("g", "a", -1, None, None, "GROUP_ID_NOT_FOUND Group g not found."),
    ],
)
def test_what_a_heartbeat_must_say(
    group_id: str, member_id: str, epoch: int, names: tuple[str, ...] | None, rack_id: str | None, told: str
) -> None:
    world = World()
    call = world.heartbeat(member_id, epoch, names, group_id=group_id, rack_id=rack_id)
    assert world.told(call) == told
    assert (call.reply.member_id, call.reply.member_epoch, call.reply.heartbeat_interval_ms) == (None, 0, 0)


def test_a_member_id_may_have_as_many_characters_as_a_uuid() -> None:
    assert World().join("x" * 36, "t") == "2 nothing"


def test_strangers_are_refused_and_so_is_one_too_many() -> None:
    world = World(max_size=1)
    world.join("a", "t")
    assert world.beat("b", 2) == "GROUP_MAX_SIZE_REACHED The share group has reached its maximum capacity of 1 members."
    world.heartbeat("a", -1)
    assert world.beat("b", 2) == "UNKNOWN_MEMBER_ID Member b is not a member of group g."
    assert world.told(world.heartbeat("b", -1)) == "UNKNOWN_MEMBER_ID Member b is not a member of group g."


def test_a_member_that_is_not_heard_of_for_its_session_is_removed() -> None:
    world = World()
    world.join("a", "t")
    world.pass_ms(SESSION_MS - 1)
    assert world.beat("a", 2) == "3 t012"
    world.pass_ms(SESSION_MS - 1)
    assert world.described().group_state == "Stable"
    world.pass_ms(1)
    assert world.described().group_state == "Empty"
    assert not world.described().members


def test_a_member_whose_end_could_not_be_written_down_is_removed_a_little_later() -> None:
    world = World()
    world.join("a", "t")
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.pass_ms(SESSION_MS)
    assert world.described().group_state == "Stable"
    world.pass_ms(499)
    assert world.described().group_state == "Stable"
    world.pass_ms(1)
    assert world.described().group_state == "Empty"


def test_what_compaction_left_of_the_end_of_a_member_makes_no_member() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t")
    world.heartbeat("b", -1)
    before = world.described()
    world.shard().apply_share_update("g", MemberCurrent("b", None))
    assert world.described() == before
    world.shard().apply_share_update("g", MemberCurrent("c", Current(2, 1, places("t", 0))))
    assert [member.member_id for member in world.described().members] == ["a", "c"]


def test_a_group_id_belongs_to_one_kind() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    as_consumer = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    refused = world.ask(as_consumer, 1)
    assert (refused.error_code, refused.error_message) == (69, "Group g is not a consumer group.")
    as_classic = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1_000,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    assert world.ask(as_classic, 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(
            OffsetCommitRequestTopic(
                name="t",
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None),
                ),
            ),
        ),
    )
    assert world.ask(commit, 8).topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_groups_of_other_kinds_have_no_share_members(kind: str) -> None:
    world = World()
    if kind == "consumer":
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        world.ask(request, 1)
    else:
        world.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=1_000,
                member_id="",
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
            ),
            3,
        )
    for epoch, names in ((0, ("t",)), (2, None), (-1, None)):
        told = world.told(world.heartbeat("a", epoch, names))
        assert told == "GROUP_ID_NOT_FOUND Group g is not a share group."
    assert (world.described().error_code, world.described().error_message) == (69, "Group g is not a share group.")


def test_groups_are_listed_with_their_kind_and_never_expire() -> None:
    world = World()
    world.join("a", "t")
    world.heartbeat("a", -1)
    world.pass_ms(world.config.offsets_retention_ms * 2)
    (listed,) = world.ask(ListGroupsRequest(types_filter=("Share",)), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Empty",
        "share",
    )


def test_unknown_groups_are_described_as_not_found() -> None:
    world = World()
    assert world.described() == DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group g not found.",
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
    assert world.described("").error_code == ErrorCode.INVALID_GROUP_ID


def test_groups_without_a_name_are_described_first_and_the_others_in_the_order_asked() -> None:
    world = World()
    world.join("a", "t")
    request = ShareGroupDescribeRequest(group_ids=("h", "", "g"), include_authorized_operations=False)
    groups = world.ask(request, 1).groups
    assert [(group.group_id, ErrorCode(group.error_code).name) for group in groups] == [
        ("", "INVALID_GROUP_ID"),
        ("h", "GROUP_ID_NOT_FOUND"),
        ("g", "NONE"),
    ]


def test_a_group_without_settings_of_its_own_has_kafkas() -> None:
    sim = Sim({"t": 1})
    sim.ask(ShareGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=0, subscribed_topic_names=("t",)), 1)
    assert sim.shard().share_settings_of("g")._asdict() == {
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 5_000,
        "assignment_interval_ms": 1_000,
        "record_lock_duration_ms": 30_000,
        "delivery_count_limit": 5,
        "partition_max_record_locks": 2_000,
        "auto_offset_reset": "latest",
        "isolation_level": "read_uncommitted",
        "renew_acknowledge_enable": True,
        "max_size": 200,
    }


def test_after_a_crash_the_group_is_as_its_records_say_and_sessions_begin_again() -> None:
    world = World()
    world.join("a", "t")
    world.join("b", "t", "u")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    world.beat("b", 2)
    before = world.described()
    world.restart()
    assert world.described() == before
    assert world.beat("a", 3) == "3 -"
    world.pass_ms(SESSION_MS)
    assert world.described().group_state == "Empty"


def test_state_whose_making_a_crash_interrupted_is_asked_for_again() -> None:
    world = World()
    world.holds_state = True
    world.join("a", "t")
    world.errands.clear()
    world.restart()
    world.beat("a", 2)
    assert len(world.make_state()) == 1
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"


def test_what_cannot_be_written_has_not_happened() -> None:
    world = World()
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.heartbeat("a", 0, ("t",)).error == ErrorCode.NOT_COORDINATOR
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.join("a", "t") == "2 nothing"
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.heartbeat("a", -1)
    assert isinstance(world.shard().groups["g"], ShareGroup)
    assert world.described().members
