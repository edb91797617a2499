"""Where share groups are, for administrators. Answers and records are those of a live 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.share.updates import PartitionStates, StatePartitions, TopicState
from kshim.coordinator.step import RequestContext
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages import write_share_group_state as writing
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from tests.coordinator.groups.share.world import INTERVAL_MS, World, places
from tests.coordinator.harness import Call, topic_id

Starts = dict[str, dict[int, int]]
"""Partition -> start offset, by topic."""

T, U = topic_id("t"), topic_id("u")
NOT_HERE = "UNKNOWN_TOPIC_OR_PARTITION This server does not host this topic-partition."


class AdminWorld(World):
    """With an administrator, to whom nothing is told before the share coordinator has answered. `ends` are the high
    watermarks; all others are not known."""

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        super().__init__(topics)
        self.ends: dict[tuple[str, int], int] = {}

    def ask_where(
        self, *asked: tuple[str, dict[str, tuple[int, ...]] | None]
    ) -> Call[describing.DescribeShareGroupOffsetsResponse]:
        """DescribeShareGroupOffsets of (group id, partitions by topic or None for all)."""
        request = describing.DescribeShareGroupOffsetsRequest(
            groups=tuple(
                describing.DescribeShareGroupOffsetsRequestGroup(
                    group_id=group_id,
                    topics=None
                    if topics is None
                    else tuple(
                        describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
                        for name, indexes in topics.items()
                    ),
                )
                for group_id, topics in asked
            )
        )
        coder = codec(type(request), 1)
        parsed, _ = coder.parse(coder.build(request), 0)
        call = Call(request, 1)
        context = RequestContext(1, "admin", "/127.0.0.1", self.now)
        step = self.coordinator.describe_share_group_offsets(
            parsed, context, call, lambda name, index: self.ends.get((name, index))
        )
        self.apply(step)
        return call

    def where(self, group_id: str = "g", topics: dict[str, tuple[int, ...]] | None = None) -> str:
        """Where one group is, in words."""
        call = self.ask_where((group_id, topics))
        self.make_state()
        (found,) = said_where(call)
        return found

    def move(self, starts: Starts, group_id: str = "g") -> Call[altering.AlterShareGroupOffsetsResponse]:
        """AlterShareGroupOffsets."""
        request = altering.AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=tuple(
                altering.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=tuple(
                        altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
                        for index, start in found.items()
                    ),
                )
                for name, found in starts.items()
            ),
        )
        return self.send(request, 0)

    def moved(self, starts: Starts, group_id: str = "g") -> str:
        """What comes of it, in words."""
        call = self.move(starts, group_id)
        self.make_state()
        return said_moved(call)

    def forget(self, *names: str, group_id: str = "g") -> Call[deleting.DeleteShareGroupOffsetsResponse]:
        """DeleteShareGroupOffsets."""
        topics = tuple(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names)
        return self.send(deleting.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=topics), 0)

    def forgotten(self, *names: str, group_id: str = "g") -> str:
        """What comes of it, in words."""
        call = self.forget(*names, group_id=group_id)
        self.make_state()
        return said_forgotten(call)

    def acknowledge(self, name: str, index: int, *, start: int, done: int) -> None:
        """What a leader writes to the share coordinator."""
        one = writing.PartitionData(
            partition=index,
            state_epoch=1,
            leader_epoch=7,
            start_offset=start,
            delivery_complete_count=done,
            state_batches=(),
        )
        topic = writing.WriteStateData(topic_id=topic_id(name), partitions=(one,))
        request = writing.WriteShareGroupStateRequest(group_id="g", topics=(topic,))
        ((result,),) = [topic.partitions for topic in self.of_share_coordinator(request).results]
        assert result.error_code == ErrorCode.NONE

    def kept(self) -> dict[tuple[str, int], int]:
        """The start offset of each partition of which the share coordinator keeps state for the group `g`."""
        found: dict[tuple[str, int], int] = {}
        for name, (count, _) in self.topics.topics.items():
            partitions = tuple(PartitionData(partition=index, leader_epoch=0) for index in range(count))
            topic = ReadStateSummaryData(topic_id=topic_id(name), partitions=partitions)
            reply = self.of_share_coordinator(ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,)))
            found |= {(name, one.partition): one.start_offset for row in reply.results for one in row.partitions}
        return {place: start for place, start in found.items() if start >= 0}

    def states(self) -> StatePartitions:
        """For which partitions the group has state."""
        return self.shard().share_group("g").states

    def written_states(self) -> list[StatePartitions | None]:
        """What was ever written about that."""
        return [update.states for batch in self.written() for update in batch if isinstance(update, PartitionStates)]

    def join_classic(self) -> None:
        """A member of the classic protocol makes the group `g`."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1_000,
            member_id="",
            protocol_type="consumer",
            protocols=(protocol,),
        )
        self.send(request, 3)


def in_words(error_code: int, message: str | None) -> str:
    return "done" if error_code == ErrorCode.NONE else f"{ErrorCode(error_code).name} {message}"


def said_where(call: Call[describing.DescribeShareGroupOffsetsResponse]) -> list[str]:
    """Start, lag and leader epoch of each partition, by group: `t0 at 2 lag 6 epoch 7`."""
    found = []
    for group in call.reply.groups:
        rows = [
            f"{topic.topic_name}{one.partition_index} at {one.start_offset} lag {one.lag} epoch {one.leader_epoch}"
            + ("" if one.error_code == ErrorCode.NONE else f" {in_words(one.error_code, one.error_message)}")
            for topic in group.topics
            for one in topic.partitions
        ]
        words = ", ".join(rows) or "nowhere"
        found.append(words if group.error_code == ErrorCode.NONE else in_words(group.error_code, group.error_message))
    return found


def said_moved(call: Call[altering.AlterShareGroupOffsetsResponse]) -> str:
    reply = call.reply
    if reply.error_code != ErrorCode.NONE:
        return in_words(reply.error_code, reply.error_message)
    return ", ".join(
        f"{topic.topic_name}{one.partition_index} {in_words(one.error_code, one.error_message)}"
        for topic in reply.responses
        for one in topic.partitions
    )


def said_forgotten(call: Call[deleting.DeleteShareGroupOffsetsResponse]) -> str:
    reply = call.reply
    if reply.error_code != ErrorCode.NONE:
        return in_words(reply.error_code, reply.error_message)
    return ", ".join(
        f"{topic.topic_name} {in_words(topic.error_code, topic.error_message)}" for topic in reply.responses
    )


# Where a group is


def test_the_lag_is_what_is_behind_the_start_and_not_done() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 1, 1: 3}})
    world.acknowledge("t", 0, start=2, done=3)
    world.ends = {("t", 0): 10, ("t", 1): 3}
    assert world.where() == "t0 at 2 lag 5 epoch 7, t1 at 3 lag 0 epoch 0"
    assert world.where(topics={"t": (1,)}) == "t1 at 3 lag 0 epoch 0"


def test_there_is_no_lag_where_the_end_or_the_start_is_not_known() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 1}, "u": {0: -1, 1: 4}})
    world.ends = {("u", 0): 10, ("u", 1): 5}
    assert world.where() == "t0 at 1 lag -1 epoch 0, u0 at -1 lag -1 epoch 0, u1 at 4 lag 1 epoch 0"
    world.acknowledge("u", 1, start=-1, done=-1)
    assert world.where(topics={"u": (1,)}) == "u1 at 4 lag 1 epoch 7"


def test_partitions_without_state_and_groups_that_do_not_exist_are_nowhere() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 1}})
    assert world.where(topics={"t": (0, 2), "u": (1,), "nothing": (0,)}) == (
        "t0 at 1 lag -1 epoch 0, t2 at -1 lag -1 epoch 0, u1 at -1 lag -1 epoch 0, nothing0 at -1 lag -1 epoch 0"
    )
    assert world.where("nobody") == "nowhere"
    assert world.where("nobody", {"t": (0, 99)}) == "t0 at -1 lag -1 epoch 0, t99 at -1 lag -1 epoch 0"


def test_many_groups_are_answered_together_in_the_order_asked_when_all_are_known() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 1}})
    world.moved({"u": {1: 2}}, "other")
    call = world.ask_where(("nobody", None), ("other", None), ("g", None))
    assert call.is_parked
    world.make_state()
    assert said_where(call) == ["nowhere", "u1 at 2 lag -1 epoch 0", "t0 at 1 lag -1 epoch 0"]
    assert [group.group_id for group in call.reply.groups] == ["nobody", "other", "g"]
    assert said_where(world.ask_where()) == []


def test_what_the_share_coordinator_refuses_is_told_of_each_partition() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 1, 1: 2}})
    call = world.ask_where(("g", None))
    world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert said_where(call) == [
        "t0 at -1 lag -1 epoch 0 COORDINATOR_NOT_AVAILABLE None, t1 at -1 lag -1 epoch 0 COORDINATOR_NOT_AVAILABLE None"
    ]


def test_groups_of_other_kinds_have_no_place_and_get_none() -> None:
    world = AdminWorld()
    world.join_classic()
    assert world.where() == "nowhere"
    assert world.where(topics={"t": (0,)}) == "t0 at -1 lag -1 epoch 0"
    assert world.moved({"t": {0: 1}}) == "GROUP_ID_NOT_FOUND Group g is not a share group."
    assert world.forgotten("t") == "GROUP_ID_NOT_FOUND Group g is not a share group."


# Elsewhere from now on


def test_moving_makes_the_group_and_is_told_in_kafkas_records() -> None:
    world = AdminWorld()
    call = world.move({"t": {0: 5, 2: 7}})
    assert call.is_parked
    (asked,) = world.make_state()
    assert said_moved(call) == "t0 done, t2 done"
    assert [row.topic_id for row in call.reply.responses] == [T]
    (topic,) = asked.topics
    assert [(one.partition, one.state_epoch, one.start_offset) for one in topic.partitions] == [(0, 1, 5), (2, 1, 7)]
    partitions = {T: TopicState("t", frozenset({0, 2}))}
    assert world.written_states() == [StatePartitions(partitions), StatePartitions({}, partitions)]
    assert world.kept() == {("t", 0): 5, ("t", 2): 7}
    assert world.described().group_state == "Empty"


def test_a_group_that_nobody_has_joined_has_the_first_epoch_and_the_hash_of_no_topics() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5}})
    group = world.shard().share_group("g")
    assert (group.group_epoch, group.target_epoch) == (1, 1)
    assert group.metadata_hash == world.shard().hash_of_topics(frozenset()) == 0


def test_partitions_that_do_not_exist_are_refused_one_by_one() -> None:
    world = AdminWorld()
    assert world.moved({"t": {2: 1, 3: 1}, "nothing": {0: 1}}) == f"t2 done, t3 {NOT_HERE}, nothing0 {NOT_HERE}"
    assert world.kept() == {("t", 2): 1}


def test_moving_topics_that_do_not_exist_makes_no_group() -> None:
    world = AdminWorld()
    assert world.moved({"nothing": {0: 1}}) == f"nothing0 {NOT_HERE}"
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_moving_only_partitions_that_do_not_exist_makes_a_group_that_knows_the_topic() -> None:
    world = AdminWorld()
    assert world.moved({"t": {3: 1, -1: 1}}) == f"t3 {NOT_HERE}, t-1 {NOT_HERE}"
    assert world.written_states() == [StatePartitions({T: TopicState("t", frozenset())})]
    world.join("a", "t", "u")
    assert world.kept() == {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}
    assert not world.states().initializing


def test_a_topic_that_a_group_knows_without_partitions_stays_known_while_others_are_moved() -> None:
    world = AdminWorld()
    world.moved({"t": {3: 1}})
    world.moved({"u": {0: 1}})
    assert world.states().initializing == {T: TopicState("t", frozenset())}


def test_state_that_was_never_made_cannot_be_forgotten() -> None:
    world = AdminWorld()
    world.moved({"t": {3: 1}})
    assert world.forgotten("t") == "t UNKNOWN_TOPIC_OR_PARTITION There is no offset information to delete."
    assert world.states().initializing == {T: TopicState("t", frozenset())}


def test_a_group_that_only_knows_a_topic_can_be_deleted() -> None:
    world = AdminWorld()
    world.moved({"t": {3: 1}})
    call = world.send(DeleteGroupsRequest(groups_names=("g",)), 2)
    world.make_state()
    assert call.reply.results[0].error_code == ErrorCode.NONE
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_only_a_group_without_members_can_be_moved() -> None:
    world = AdminWorld()
    world.join("a", "t")
    assert world.moved({"t": {0: 1}}) == "NON_EMPTY_GROUP The group is not empty."
    assert world.forgotten("t") == "NON_EMPTY_GROUP The group is not empty."
    world.heartbeat("a", -1)
    assert world.moved({"t": {0: 1}}) == "t0 done"
    assert world.kept() == {("t", 0): 1}


def test_a_group_without_a_name_can_be_neither_moved_nor_forgotten() -> None:
    world = AdminWorld()
    assert world.moved({"t": {0: 1}}, "") == "INVALID_GROUP_ID The group id is invalid."
    assert world.forgotten("t", group_id="") == "INVALID_GROUP_ID The group id is invalid."


def test_who_joins_while_a_group_is_moved_does_not_begin_elsewhere() -> None:
    world = AdminWorld()
    world.holds_state = True
    call = world.move({"t": {0: 5}})
    world.join("a", "t")
    world.make_state()
    assert said_moved(call) == "t0 done"
    assert world.states().are_initialized() == places("t", 0, 1, 2)
    assert world.kept() == {("t", 0): 5, ("t", 1): 0, ("t", 2): 0}  # the group knows the topic


def test_a_move_that_could_not_begin_has_not_happened() -> None:
    world = AdminWorld()
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.moved({"t": {0: 5}}) == "NOT_COORDINATOR None"
    assert world.kept() == {}
    assert world.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_group_that_is_given_up_while_it_is_moved_is_written_no_more(error: ErrorCode) -> None:
    world = AdminWorld()
    call = world.move({"t": {0: 5}})
    count = len(world.written())
    world.apply(world.coordinator.unload(world.coordinator.partition_for("g"), error))
    world.make_state()
    assert not call.is_parked
    assert len(world.written()) == count


def test_a_group_that_has_become_another_kind_while_it_was_moved_is_left_alone() -> None:
    world = AdminWorld()
    world.moved({"u": {0: 1}})
    call = world.move({"t": {0: 5}})
    deletion = world.send(DeleteGroupsRequest(groups_names=("g",)), 2)
    errand = world.errands.pop(0)
    world.make_state()
    assert deletion.reply.results[0].error_code == ErrorCode.NONE
    world.join_classic()
    count = sum(map(len, world.logs.values()))
    world.errands.append(errand)
    world.make_state()
    assert not call.is_parked
    assert sum(map(len, world.logs.values())) == count


def test_a_move_that_could_not_be_written_down_is_refused_and_the_state_is_asked_for_by_who_joins() -> None:
    world = AdminWorld()
    call = world.move({"t": {0: 5}})
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.make_state()
    assert said_moved(call) == "NOT_COORDINATOR None"
    assert world.join("a", "t") == "2 nothing"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"


def test_a_move_that_the_share_coordinator_refuses_is_tried_again_for_who_joined_meanwhile() -> None:
    world = AdminWorld({"t": 1})
    world.holds_state = True
    call = world.move({"t": {0: 5}})
    world.join("a", "t")
    (asked,) = world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(asked, InitializeShareGroupStateRequest)
    assert said_moved(call) == "t0 COORDINATOR_NOT_AVAILABLE None"
    world.beat("a", 2)
    assert len(world.make_state()) == 1
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t0"


# Nowhere any more


def test_state_that_could_not_be_deleted_is_deleted_by_the_next_attempt() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5, 2: 7}, "u": {1: 9}})
    call = world.forget("t")
    world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert said_forgotten(call) == "t COORDINATOR_NOT_AVAILABLE None"
    assert world.kept() == {("t", 0): 5, ("t", 2): 7, ("u", 1): 9}
    assert world.forgotten("t") == "t done"
    assert world.kept() == {("u", 1): 9}


def test_topics_are_forgotten_in_kafkas_records() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5, 2: 7}, "u": {1: 9}})
    count = len(world.written_states())
    call = world.forget("u", "t", "nothing")
    assert call.is_parked
    (asked,) = world.make_state()
    assert said_forgotten(call) == f"u done, t done, nothing {NOT_HERE}"
    assert [row.topic_id for row in call.reply.responses] == [U, T, bytes(16)]
    assert {(topic.topic_id, one.partition) for topic in asked.topics for one in topic.partitions} == (
        places("t", 0, 2) | places("u", 1)
    )
    assert world.written_states()[count:] == [StatePartitions({}, {}, {T: "t", U: "u"}), StatePartitions()]
    assert world.kept() == {}
    assert world.where() == "nowhere"


def test_other_topics_of_the_group_stay() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5}, "u": {1: 9}})
    assert world.forgotten("u") == "u done"
    assert world.states() == StatePartitions({}, {T: TopicState("t", frozenset({0}))})
    assert world.kept() == {("t", 0): 5}


def test_where_there_is_no_state_there_is_nothing_to_forget() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5}})
    nothing = "UNKNOWN_TOPIC_OR_PARTITION There is no offset information to delete."
    assert world.forgotten("u") == f"u {nothing}"
    assert world.forgotten("u", "t") == f"u {nothing}, t done"
    assert world.forgotten("t") == f"t {nothing}"
    assert world.forgotten("t", group_id="nobody") == "GROUP_ID_NOT_FOUND Group nobody not found."


def test_state_that_the_share_coordinator_does_not_know_is_forgotten_as_well() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5}})
    call = world.forget("t")
    world.make_state(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert said_forgotten(call) == "t done"
    assert world.states() == StatePartitions()


def test_forgetting_that_could_not_be_written_down_is_refused() -> None:
    world = AdminWorld()
    world.moved({"t": {0: 5}})
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.forgotten("t") == "t NOT_COORDINATOR None"
    assert world.kept() == {("t", 0): 5}
