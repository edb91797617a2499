"""Where share groups are, for administrators. Answers and records are those of a live 4.4."""

from __future__ import annotations

from kshim.coordinator.groups.share.updates import PartitionStates, StatePartitions
from kshim.coordinator.step import RequestContext
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages import write_share_group_state as writing
from kshim_protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from tests.coordinator.groups.share.world import INTERVAL_MS, World
from tests.coordinator.harness import Call, topic_id

Starts = dict[str, dict[int, int]]
"""Partition -> start offset, by topic."""

T, U = topic_id("t"), topic_id("u")
NOT_HERE = "UNKNOWN_TOPIC_OR_PARTITION This server does not host this topic-partition."


class Offices(World):
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


# Elsewhere from now on


def test_a_move_that_could_not_be_written_down_is_refused_and_the_state_is_asked_for_by_who_joins() -> None:
    world = Offices()
    call = world.move({"t": {0: 5}})
    world.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    world.make_state()
    assert said_moved(call) == "NOT_COORDINATOR None"
    assert world.join("a", "t") == "2 nothing"
    world.pass_ms(INTERVAL_MS)
    assert world.beat("a", 2) == "3 t012"


def test_a_move_that_the_share_coordinator_refuses_is_tried_again_for_who_joined_meanwhile() -> None:
    world = Offices({"t": 1})
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
    world = Offices()
    world.moved({"t": {0: 5, 2: 7}, "u": {1: 9}})
    call = world.forget("t")
    world.make_state(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert said_forgotten(call) == "t COORDINATOR_NOT_AVAILABLE None"
    assert world.kept() == {("t", 0): 5, ("t", 2): 7, ("u", 1): 9}
    assert world.forgotten("t") == "t done"
    assert world.kept() == {("u", 1): 9}
