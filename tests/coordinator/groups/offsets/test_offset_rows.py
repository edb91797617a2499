"""Offsets that stay in rows: answers, records and memory are those of offsets that are looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.groups.offsets.committed_offsets import Commit
from kshim.coordinator.groups.offsets.offset_rows import OffsetRows, PositionRows, TopicOffsets
from kshim.coordinator.step import RequestContext
from kshim_protocol.codec import codec
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kshim_protocol.rows import Rows
from kshim_protocol.schema import Request
from tests.coordinator.harness import Call, Sim, handler_of, topic_id
from tests.coordinator.peers import fetched

TOPICS = {"orders": 200, "audit": 12}


def by_hand(request: Request[Any]) -> Request[Any]:
    """The same request, a struct for each partition."""
    if not isinstance(request, OffsetCommitRequest):
        return request
    return replace(
        request, topics=tuple(replace(topic, partitions=tuple(topic.partitions)) for topic in request.topics)
    )


class TwoSims:
    """The same requests to two coordinators, the second of which never sees rows. Whatever they answer is the same."""

    def __init__(self) -> None:
        self.with_rows, self.without = Sim(TOPICS), Sim(TOPICS)

    def ask(self, request: Request[Any], version: int) -> Any:
        own = codec(type(request), version)
        parsed = own.parse(own.build(request))[0]
        replies = []
        for sim, received in ((self.with_rows, parsed), (self.without, by_hand(parsed))):
            call = Call(request, version)
            context = RequestContext(version, "client", "/127.0.0.1", sim.now)
            sim.apply(handler_of(sim.coordinator, request)(received, context, call))
            response_codec = codec(type(call.reply), version)
            replies.append(response_codec.build(call.reply))
            sim.pass_ms(7)
        assert replies[0] == replies[1]
        assert self.with_rows.logs == self.without.logs
        return call.reply

    def kept(self) -> Any:
        """What is committed, which both agree on; in the order in which it came."""
        found = []
        for sim in (self.with_rows, self.without):
            shard = sim.coordinator.shard_of("g")
            offsets = {} if shard is None else shard.offsets.of_group("g")
            found.append([(topic, list(partitions.items())) for topic, partitions in offsets.items()])
        assert found[0] == found[1]
        return found[0]


def commit(
    name: str, indexes: Sequence[int], first: int, metadata: str | None = "", retention_ms: int = -1
) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=first + number,
            committed_leader_epoch=-1 if retention_ms >= 0 else number,
            committed_metadata=metadata,
        )
        for number, index in enumerate(indexes)
    )
    topics = (OffsetCommitRequestTopic(name=name, topic_id=topic_id(name), partitions=partitions),)
    return OffsetCommitRequest(group_id="g", member_id="", retention_time_ms=retention_ms, topics=topics)


NAMES = st.sampled_from(["orders", "orders", "audit"])
FEW = st.lists(st.integers(-1, 14), max_size=12)
RUNS = st.tuples(st.integers(0, 120), st.sampled_from([4, 5, 63, 64, 65, 80])).map(lambda run: range(run[0], sum(run)))
INDEXES = st.one_of(FEW, FEW.map(lambda few: list(dict.fromkeys(few))), RUNS)


class Steps:
    """What is done in a test, each on both coordinators."""

    @staticmethod
    def commit(sims: TwoSims, name: str, indexes: Sequence[int], number: int) -> None:
        metadata, retention_ms, version = [
            ("", -1, 8), (None, -1, 9), ("", -1, 6), ("", -1, 10), ("", 1000, 2), ("x", -1, 8), ("", -1, 7),
        ][number % 7]  # fmt: skip
        request = commit(name, indexes, number, metadata, retention_ms)
        if version < 10:
            topics = tuple(replace(topic, topic_id=bytes(16)) for topic in request.topics)
        else:
            topics = tuple(replace(topic, name="") for topic in request.topics)
        if version < 6:
            topics = tuple(
                replace(topic, partitions=tuple(replace(each, committed_leader_epoch=-1) for each in topic.partitions))
                for topic in topics
            )
        sims.ask(replace(request, topics=topics), version)

    @staticmethod
    def fetch(sims: TwoSims, name: str, indexes: Sequence[int], number: int) -> None:
        if number % 3 == 0:
            old = (OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes)),)
            sims.ask(OffsetFetchRequest(group_id="g", topics=old), 7)
        elif number % 3 == 1:
            sims.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), 8)
        else:
            topic = OffsetFetchRequestTopics(topic_id=topic_id(name), partition_indexes=tuple(indexes))
            sims.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=(topic,)),)), 10)

    @staticmethod
    def delete(sims: TwoSims, name: str, indexes: Sequence[int], _number: int) -> None:
        partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in list(indexes)[:2])
        topics = (OffsetDeleteRequestTopic(name=name, partitions=partitions),)
        sims.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)

    @staticmethod
    def again(sims: TwoSims, _name: str, _indexes: Sequence[int], number: int) -> None:
        """Commits of what stands there already, as a group makes them most of the time."""
        for name, offsets in sims.kept():
            indexes = [index for index, _ in offsets]
            if len(indexes) > 1:
                Steps.commit(sims, name, indexes[number % 2 :], 1000 + number)
                Steps.fetch(sims, name, indexes[number % 2 :], number)


STEP = st.tuples(
    st.sampled_from([Steps.commit, Steps.commit, Steps.fetch, Steps.delete, Steps.again]),
    NAMES,
    INDEXES,
    st.integers(0, 50),
)


@given(st.lists(STEP, min_size=1, max_size=8))
def test_whatever_is_done_to_offsets_in_rows_shows_nowhere(steps: list[Any]) -> None:
    sims = TwoSims()
    for act, name, indexes, number in steps:
        act(sims, name, indexes, number)
        sims.kept()


def test_a_commit_of_the_same_partitions_replaces_the_rows_as_a_whole() -> None:
    sims = TwoSims()
    for first in (10, 50):
        Steps.commit(sims, "orders", range(6), first * 7)
    offsets = sims.with_rows.shard().offsets.of_group("g")["orders"]
    assert isinstance(offsets, TopicOffsets)
    assert [offset.offset for offset in offsets.values()] == [350, 351, 352, 353, 354, 355]
    assert isinstance(sims.without.shard().offsets.of_group("g")["orders"], dict)


def test_rows_answer_for_just_their_partitions_in_just_their_order() -> None:
    sims = TwoSims()
    Steps.commit(sims, "orders", range(1, 7), 0)
    for indexes in ((1, 2, 3), (1, 3, 2, 4, 5, 6), (1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 6, 5), (1, 2, 3, 4, 5, 5)):
        for version in (0, 2):
            Steps.fetch(sims, "orders", indexes, version)


def test_rows_that_lose_a_partition_leave_the_others_as_they_were() -> None:
    sims = TwoSims()
    Steps.commit(sims, "orders", range(6), 0)
    Steps.commit(sims, "orders", range(4, 9), 70)
    Steps.commit(sims, "orders", [5], 700)
    found = [(index, offset.offset) for index, offset in sims.kept()[0][1]]
    assert found == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 70), (5, 700), (6, 72), (7, 73), (8, 74)]


def test_what_an_open_transaction_holds_back_is_not_answered_from_rows() -> None:
    sim = Sim(TOPICS)
    own = codec(OffsetCommitRequest, 8)
    request = commit("orders", range(5), 10)
    topics = tuple(replace(topic, topic_id=bytes(16)) for topic in request.topics)
    parsed = own.parse(own.build(replace(request, topics=topics)))[0]
    assert isinstance(parsed.topics[0].partitions, Rows)
    sim.ask(replace(request, topics=topics), 8)
    offset = sim.shard().offsets.get("g", "orders", 3)
    assert offset is not None
    sim.shard().put_pending_offset(7, "g", "orders", 3, offset)
    places = [("orders", index) for index in range(5)]
    stable = fetched(sim, *places, require_stable=True)
    assert [row.committed_offset for row in stable.values()] == [10, 11, 12, -1, 14]
    assert [row.committed_offset for row in fetched(sim, *places).values()] == [10, 11, 12, 13, 14]


def test_position_rows_read_as_what_they_stand_for() -> None:
    own = codec(OffsetCommitRequest, 8)
    request = commit("orders", [3, 1, 3, 2], 10)
    topics = tuple(replace(topic, topic_id=bytes(16)) for topic in request.topics)
    rows = own.parse(own.build(replace(request, topics=topics)))[0].topics[0].partitions
    assert isinstance(rows, Rows)
    positions = PositionRows(rows.data)
    assert [index for index, _ in positions] == [3, 1, 3, 2]
    assert list(positions) == [positions[0], *positions[1:3], positions[-1]]
    assert len(positions) == 4
    offsets = OffsetRows(positions, Commit(1), 5).offsets()
    assert {index: (each.offset, each.record_offset) for index, each in offsets.items()} == {
        3: (12, 7), 1: (11, 6), 2: (13, 8),
    }  # fmt: skip
