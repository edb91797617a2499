"""The share coordinator's APIs: results, texts and records are those of a live 4.4 (the same calls in the same order)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest

from kshim.coordinator.share_state.config import ShareStateConfig
from kshim.coordinator.share_state.coordinator import ShareStateCoordinator
from kshim.coordinator.share_state.share_state import ShareState
from kshim.coordinator.step import Now, RequestContext, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.share_state import ShareSnapshotKey, ShareUpdateKey
from kshim_protocol.internal.share_state_records import parse_share_key, parse_share_value
from kshim_protocol.messages import delete_share_group_state as delete_messages
from kshim_protocol.messages import initialize_share_group_state as initialize_messages
from kshim_protocol.messages import read_share_group_state as read_messages
from kshim_protocol.messages import read_share_group_state_summary as summary_messages
from kshim_protocol.messages import write_share_group_state as write_messages
from kshim_protocol.records.batch import build_key_value_batch, parse_batch_header, set_base_offset
from kshim_protocol.records.record import iter_records
from tests.coordinator.harness import START_MONO_MS, START_WALL_MS, Call, Topics, topic_id

T = topic_id("t")
NO_TOPIC = b"?" * 16


class World:
    """A share coordinator and its logs."""

    def __init__(self, **config: int) -> None:
        self.config = ShareStateConfig(**config)
        self.topics = Topics({"t": 3})
        self.logs: dict[int, list[bytes]] = {}
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.append_errors: list[ErrorCode] = []
        self.now = Now(START_MONO_MS, START_WALL_MS)
        self.coordinator = ShareStateCoordinator(self.config, topics=self.topics)

    def _ask(self, method: Callable[..., Step], request: Any, version: int) -> Any:
        call: Call[Any] = Call(request, version)
        self.apply(method(request, RequestContext(version, "c", "/h", self.now), call))
        return call.reply

    def apply(self, step: Step) -> None:
        for append in step.appends:
            if self.append_errors:
                append.failed(self.append_errors.pop(0), step)
                continue
            log = self.logs.setdefault(append.partition, [])
            offset = self.ends.get(append.partition, 0)
            self.ends[append.partition] = offset + 1
            log.append(set_base_offset(append.batch, offset))
            append.written(offset, step)
        for partition, start_offset in step.log_starts:
            self.starts[partition] = start_offset
            log = self.logs[partition]
            log[:] = [batch for batch in log if parse_batch_header(batch).last_offset >= start_offset]
        for ticket, response in step.replies:
            assert isinstance(ticket, Call)
            ticket.complete(response)

    def pass_ms(self, ms: int) -> None:
        """Let time pass; timers fire in order, each at its own instant."""
        end_ms = self.now.mono_ms + ms
        while (deadline_ms := self.coordinator.next_deadline()) is not None and deadline_ms <= end_ms:
            self._move(deadline_ms - self.now.mono_ms)
            self.apply(self.coordinator.advance(self.now))
        self._move(end_ms - self.now.mono_ms)

    def _move(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)

    def restart(self) -> None:
        self.coordinator = ShareStateCoordinator(self.config, topics=self.topics)
        for partition, batches in self.logs.items():
            self.coordinator.begin_load(partition)
            self.coordinator.replay(partition, batches)
            self.apply(self.coordinator.finish_load(partition, self.now))

    def initialize(
        self, partition: int, state_epoch: int, start_offset: int, id_: bytes = T, group_id: str = "g"
    ) -> str:
        one = initialize_messages.PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
        topic = initialize_messages.InitializeStateData(topic_id=id_, partitions=(one,))
        request = initialize_messages.InitializeShareGroupStateRequest(group_id=group_id, topics=(topic,))
        return told(self._ask(self.coordinator.initialize_share_group_state, request, 0))

    def read(self, partition: int, leader_epoch: int, id_: bytes = T) -> str:
        one = read_messages.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topic = read_messages.ReadStateData(topic_id=id_, partitions=(one,))
        request = read_messages.ReadShareGroupStateRequest(group_id="g", topics=(topic,))
        return told(self._ask(self.coordinator.read_share_group_state, request, 0))

    def summary(self, partition: int, leader_epoch: int = 0) -> str:
        one = summary_messages.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topic = summary_messages.ReadStateSummaryData(topic_id=T, partitions=(one,))
        request = summary_messages.ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,))
        return told(self._ask(self.coordinator.read_share_group_state_summary, request, 1))

    def write(
        self,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        count: int,
        *batches: tuple[int, int, int, int],
    ) -> str:
        one = write_messages.PartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            state_batches=tuple(
                write_messages.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ),
        )
        topic = write_messages.WriteStateData(topic_id=T, partitions=(one,))
        request = write_messages.WriteShareGroupStateRequest(group_id="g", topics=(topic,))
        return told(self._ask(self.coordinator.write_share_group_state, request, 1))

    def delete(self, partition: int) -> str:
        one = delete_messages.PartitionData(partition=partition)
        topic = delete_messages.DeleteStateData(topic_id=T, partitions=(one,))
        request = delete_messages.DeleteShareGroupStateRequest(group_id="g", topics=(topic,))
        return told(self._ask(self.coordinator.delete_share_group_state, request, 0))

    def records(self) -> list[str]:
        """All records, in words: `snapshot 0 state 1 leader 0 from -1 done -1 []`."""
        found = []
        for log in self.logs.values():
            for batch in log:
                for record in iter_records(batch):
                    key = parse_share_key(record.key or b"")
                    assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
                    if record.value is None:
                        found.append("end")
                        continue
                    value = parse_share_value(key, record.value)
                    kind = "snapshot" if isinstance(key, ShareSnapshotKey) else "update"
                    state = f" state {value.state_epoch}" if isinstance(key, ShareSnapshotKey) else ""  # type: ignore[union-attr]
                    found.append(
                        f"{kind} {value.snapshot_epoch}{state} leader {value.leader_epoch} from {value.start_offset} "
                        f"done {value.delivery_complete_count} {in_words(value.state_batches)}"
                    )
        return found


def in_words(batches: Any) -> str:
    return " ".join(
        f"{batch.first_offset}-{batch.last_offset}:{batch.delivery_state}x{batch.delivery_count}" for batch in batches
    )


def told(response: Any) -> str:
    """The one result of a response, in words."""
    ((one,),) = [topic.partitions for topic in response.results]
    if one.error_code != ErrorCode.NONE:
        return f"{ErrorCode(one.error_code).name} {one.error_message}"
    if isinstance(one, read_messages.PartitionResult):
        return f"state {one.state_epoch} from {one.start_offset} {in_words(one.state_batches)}".strip()
    if isinstance(one, summary_messages.PartitionResult):
        return (
            f"state {one.state_epoch} leader {one.leader_epoch} from {one.start_offset} "
            f"done {one.delivery_complete_count}"
        )
    return "done"


OLD_LEADER = "FENCED_LEADER_EPOCH The leader epoch in the request is older than the epoch on the broker."
OLD_STATE = "FENCED_STATE_EPOCH The coordinator rejected the request because the state epoch did not match."
NOT_HERE = "UNKNOWN_TOPIC_OR_PARTITION This server does not host this topic-partition."


def test_without_state_nothing_can_be_read_or_written() -> None:
    world = World()
    assert world.read(0, 0) == "INVALID_REQUEST Read operation on uninitialized share partition not allowed."
    assert world.write(0, 0, 0, 0, 0) == (
        "INVALID_REQUEST Write operation on uninitialized share partition not allowed."
    )
    assert world.summary(0) == "state 0 leader 0 from -1 done -1"
    assert world.delete(0) == "done"
    assert world.records() == []


def test_partitions_that_do_not_exist_have_no_state_to_be_summed_up_or_deleted() -> None:
    world = World()
    world.topics.topics["nothing"] = (0, 0)
    assert world.summary(3) == NOT_HERE
    assert world.delete(3) == NOT_HERE
    assert world.initialize(0, 0, 0, topic_id("nothing")) == NOT_HERE
    assert world.summary(2) == "state 0 leader 0 from -1 done -1"


def java_hash(text: str) -> int:
    found = 0
    for character in text:
        found = (31 * found + ord(character)) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def test_a_state_is_in_that_of_fifty_partitions_which_the_hash_of_its_key_names() -> None:
    world = World()
    for partition in range(3):
        world.initialize(partition, 1, 0)
    id_ = urlsafe_b64encode(T).decode().rstrip("=")
    assert set(world.logs) == {abs(java_hash(f"g:{id_}:{partition}")) % 50 for partition in range(3)}


def test_what_can_be_initialized_and_what_cannot() -> None:
    world = World()
    assert world.initialize(0, 1, -1) == "done"
    assert world.initialize(0, 1, -1) == "done"
    assert world.initialize(0, 0, -1) == OLD_STATE
    assert world.initialize(-1, 0, -1) == "INVALID_REQUEST The partition id cannot be a negative number."
    assert world.initialize(0, -1, -1) == "INVALID_REQUEST The state epoch cannot be a negative number."
    assert world.initialize(9, 0, -1) == NOT_HERE
    assert world.initialize(0, 0, -1, NO_TOPIC) == NOT_HERE
    assert world.records() == [
        "snapshot 0 state 1 leader 0 from -1 done -1 ",
        "snapshot 1 state 1 leader 0 from -1 done -1 ",
    ]


def test_a_dialogue_with_the_answers_and_records_of_a_live_kafka() -> None:
    world = World()
    world.initialize(0, 1, -1)
    assert world.read(0, 2) == "state 1 from -1"
    assert world.summary(0) == "state 1 leader 2 from -1 done -1"
    assert world.read(0, 1) == OLD_LEADER
    assert world.read(0, -1) == "INVALID_REQUEST The leader epoch cannot be a negative number."
    assert world.write(0, 1, 1, -1, 0, (0, 9, 0, 1)) == OLD_LEADER
    assert world.write(0, 0, 2, -1, 0, (0, 9, 0, 1)) == OLD_STATE
    assert world.write(0, 1, 2, 0, 0, (0, 9, 0, 1)) == "done"
    assert world.write(0, 1, 2, -1, 1, (6, 6, 4, 2), (3, 4, 2, 1)) == "done"
    assert world.write(0, 1, 2, 3, 7) == "done"
    assert world.write(0, 1, 2, -1, -1, (7, 7, 0, 3)) == "done"
    assert world.write(0, 2, 3, 1, -1, (20, 25, 2, 1)) == "done"
    assert world.write(0, -1, 3, -1, -1) == "INVALID_REQUEST The state epoch cannot be a negative number."
    assert world.read(0, 3) == "state 1 from 3 3-4:2x1 5-5:0x1 6-6:4x2 7-7:0x3 8-9:0x1 20-25:2x1"
    assert world.summary(0) == "state 1 leader 3 from 3 done 7"
    assert world.initialize(0, 5, 4) == "done"
    assert world.read(0, 3) == "state 5 from 4"
    assert world.delete(0) == "done"
    assert world.initialize(0, 6, 4) == "done"
    assert world.records() == [
        "snapshot 0 state 1 leader 0 from -1 done -1 ",
        "update 0 leader 2 from -1 done -1 ",
        "update 0 leader 2 from 0 done 0 0-9:0x1",
        "update 0 leader 2 from 0 done 1 3-4:2x1 6-6:4x2",
        "update 0 leader 2 from 3 done 7 ",
        "update 0 leader 2 from 3 done 7 7-7:0x3",
        "update 0 leader 3 from 3 done 7 20-25:2x1",
        "snapshot 1 state 5 leader 0 from 4 done 0 ",
        "end",
        "snapshot 0 state 6 leader 0 from 4 done 0 ",
    ]


def state_of_the_only_partition(world: World) -> ShareState:
    ((_, found),) = [item for shard in world.coordinator._shards.values() for item in shard.states.items()]
    return found


def test_after_so_many_updates_comes_a_snapshot_with_its_own_time() -> None:
    world = World(snapshot_update_records_per_snapshot=2)
    world.initialize(0, 1, 0)
    world.pass_ms(5)
    for offset in range(4):
        world.write(0, 1, 0, -1, 0, (offset, offset, 2, 1))
    assert world.records()[1:] == [
        "update 0 leader 0 from 0 done 0 0-0:2x1",
        "update 0 leader 0 from 0 done 0 1-1:2x1",
        "snapshot 1 state 1 leader 0 from 0 done 0 0-2:2x1",
        "update 1 leader 0 from 0 done 0 3-3:2x1",
    ]
    found = state_of_the_only_partition(world)
    assert (found.create_ms, found.write_ms) == (START_WALL_MS + 5, START_WALL_MS + 5)


def test_a_snapshot_that_came_early_does_not_put_off_the_next() -> None:
    world = World(snapshot_update_records_per_snapshot=2)
    world.initialize(0, 1, 0)
    world.write(0, 1, 0, -1, 0, (0, 0, 2, 1))
    world.initialize(0, 1, 0)
    world.write(0, 1, 0, -1, 0, (0, 0, 2, 1))
    world.write(0, 1, 0, -1, 0, (1, 1, 2, 1))
    assert [record.split()[0] for record in world.records()] == ["snapshot", "update", "snapshot", "update", "snapshot"]


def test_after_a_crash_every_state_is_as_it_was() -> None:
    world = World(snapshot_update_records_per_snapshot=3)
    for partition in range(3):
        world.initialize(partition, 1, partition)
        for offset in range(7):
            world.write(partition, 1, 0, -1, offset, (offset, offset, 2 * (offset % 2), 1 + offset % 3))
    world.delete(2)
    before = [world.read(partition, 0) for partition in range(3)]
    world.restart()
    assert [world.read(partition, 0) for partition in range(3)] == before
    assert before[2].startswith("INVALID_REQUEST")


def test_what_cannot_be_written_is_refused_and_has_not_happened() -> None:
    world = World()
    world.initialize(0, 1, 0)
    world.append_errors.append(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.write(0, 1, 0, 5, 0) == "NOT_COORDINATOR None"
    assert world.read(0, 0) == "state 1 from 0"


def test_deleted_topics_are_forgotten() -> None:
    world = World()
    world.initialize(0, 1, 0)
    world.initialize(1, 1, 0)
    for step in world.coordinator.topics_deleted([T], world.now):
        world.apply(step)
    assert world.summary(0) == world.summary(1) == "state 0 leader 0 from -1 done -1"


@pytest.mark.parametrize("group_id", ["", "g"])
def test_a_request_without_group_or_topics_has_an_empty_result(group_id: str) -> None:
    world = World()
    topics = () if group_id else (initialize_messages.InitializeStateData(topic_id=T, partitions=()),)
    request = initialize_messages.InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
    assert world._ask(world.coordinator.initialize_share_group_state, request, 0).results == ()


def test_replay_gives_way_after_each_128_records() -> None:
    world = World()
    world.initialize(0, 1, 0)
    for offset in range(299):
        world.write(0, 1, 0, -1, 0, (offset, offset, 2, 1))
    ((partition, log),) = world.logs.items()
    loading = ShareStateCoordinator(world.config, topics=world.topics)
    loading.begin_load(partition)
    assert sum(1 for _ in loading.begin_replay(partition).feed(b"".join(log))) == 2


def test_a_record_that_cannot_be_read_ends_the_replay_with_its_offset() -> None:
    world = World()
    world.initialize(0, 1, 0)
    (log,) = world.logs.values()
    ((key,),) = [[record.key for record in iter_records(batch)] for batch in log]
    assert key is not None
    log.append(set_base_offset(build_key_value_batch([(key, b"\x00\x00")], START_WALL_MS), 1))
    with pytest.raises(ProtocolError, match="offset 1: "):
        world.restart()


def test_a_deadline_would_be_a_defect() -> None:
    world = World()
    world.initialize(0, 1, 0)
    (shard,) = world.coordinator._shards.values()
    shard.deadlines.set(("session", "g", "a"), START_MONO_MS)
    with pytest.raises(AssertionError, match="deadline of nothing"):
        world.coordinator.advance(world.now)
