"""A whole broker without sockets over a disk that fails: requests, background tasks that go on bit by bit, crashes.

`run(seed, steps, policy, folder)` decides everything by chance from the seed. Jobs of background tasks run whenever their turn comes
and their results arrive later still, as those of threads do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.partitions.durability import FsyncPolicy
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kshim_protocol.messages.produce import ProduceResponse
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request
from tests.broker.data_plane import a_batch, fetch_of, produce_of
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.simulation.durability.background_work import BackgroundWork
from tests.simulation.durability.disk import SimulatedDisk
from tests.simulation.durability.promises import PromisedOffsets, PromisedRecords
from tests.simulation.violation import Violation, require

GROUPS = ("fine", "broken", "third")  # in different partitions of the offsets topic
PARTITIONS = (0, 1)
TOPIC = "orders"
INTERVAL_MS = 100

_UNAVAILABLE = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class Run(NamedTuple):
    """What came of a seed: what was done, one line each, and what was found wrong."""

    seed: int
    done: list[str]
    violation: Violation | None


class _World:
    def __init__(self, rng: Random, policy: FsyncPolicy, folder: Path, done: list[str]) -> None:
        self.rng = rng
        self.policy = policy
        self.folder = folder
        self.done = done
        self.disk = SimulatedDisk(folder)
        self.offsets = {group_id: PromisedOffsets(group_id, policy) for group_id in GROUPS}
        self.records = {index: PromisedRecords(f"{TOPIC}-{index}", policy) for index in PARTITIONS}
        self.asked: list[tuple[Client, Callable[[Client], None]]] = []
        self.background = BackgroundWork(rng)
        self.values = 0
        self.faulted: set[str] = set()
        self.node = self._start()
        self.node.topic(TOPIC, len(PARTITIONS))
        self.folders = [f"{TOPIC}-{index}" for index in PARTITIONS] + [self._folder_of(group) for group in GROUPS]

    def _start(self) -> NodeUnderTest:
        self.faulted = self.disk.bad_syncs | self.disk.bad_writes
        return a_node(
            {"offsets.topic.num.partitions": "10"},
            storage=files_in(self.folder, self.disk),
            fsync=self.policy,
            tolerates_defects=True,
        )

    def _folder_of(self, group_id: str) -> str:
        return f"{OFFSETS_TOPIC}-{self.node.cluster.groups.coordinator.partition_for(group_id)}"

    # Requests

    def _send(self, request: Request[Any], version: int, answered: Callable[[Client], None]) -> None:
        client = self.node.client()
        self.asked.append((client, answered))
        client.send(request, version)

    def take_answers(self) -> None:
        """Look at every answer that has come. Raises Violation."""
        waiting = []
        for client, answered in self.asked:
            if client.unread:
                answered(client)
            else:
                waiting.append((client, answered))
        self.asked = waiting

    def commit(self, group_id: str) -> None:
        number = self.offsets[group_id].next()
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="")
        topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),)

        def answered(client: Client) -> None:
            answer = client.take(OffsetCommitResponse).topics[0].partitions[0]
            error = ErrorCode(answer.error_code)
            if error == ErrorCode.NONE:
                self.offsets[group_id].acknowledged(number)
                return
            self._require_founded(error, self._folder_of(group_id), "commit")
            if error != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self.offsets[group_id].refused(number)

        self._send(OffsetCommitRequest(group_id=group_id, member_id="", topics=topics), 2, answered)

    def fetch_offsets(self, group_ids: list[str]) -> None:
        wanted = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),)
        groups = tuple(OffsetFetchRequestGroup(group_id=group_id, topics=wanted) for group_id in group_ids)
        least = {group_id: self.offsets[group_id].least for group_id in group_ids}

        def answered(client: Client) -> None:
            for group in client.take(OffsetFetchResponse).groups:
                if group.error_code:
                    error = ErrorCode(group.error_code)
                    self._require_founded(error, {self._folder_of(each) for each in group_ids}, "fetch offsets")
                else:
                    number = group.topics[0].partitions[0].committed_offset
                    self.offsets[group.group_id].read(max(number, 0), least[group.group_id])

        self._send(OffsetFetchRequest(groups=groups), 8, answered)

    def _require_founded(self, error: ErrorCode, folders: str | set[str], what: str) -> None:
        faulted = self.faulted & ({folders} if isinstance(folders, str) else folders)
        is_founded = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or (error in _UNAVAILABLE and bool(faulted))
        require(is_founded, "error-unfounded", f"{what}: {error.name}, although nothing is wrong with {folders}")

    def produce(self, indexes: tuple[int, ...]) -> None:
        batches = {}
        for index in indexes:
            self.values += 1
            batches[index] = b"%d" % self.values
            self.records[index].sent(batches[index])

        def answered(client: Client) -> None:
            for answer in client.take(ProduceResponse).responses[0].partition_responses:
                if answer.error_code == ErrorCode.NONE:
                    self.records[answer.index].acknowledged(answer.base_offset, batches[answer.index])
                else:
                    is_founded = answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and (
                        f"{TOPIC}-{answer.index}" in self.faulted
                    )
                    require(is_founded, "error-unfounded", f"produce: {answer!r}")

        request = produce_of(TOPIC, *(a_batch(value) for value in batches.values()), first_partition=indexes[0])
        self._send(request, 12, answered)

    def fetch(self, index: int, judge: Callable[[list[tuple[int, bytes]], int], None]) -> None:
        def answered(client: Client) -> None:
            answer = client.take(FetchResponse).responses[0].partitions[0]
            if answer.error_code:
                is_founded = answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and f"{TOPIC}-{index}" in self.faulted
                require(is_founded, "error-unfounded", f"fetch: {answer!r}")
            else:
                found = [
                    (record.offset, record.value or b"")
                    for batch in iter_batches(answer.records or b"")
                    for record in iter_records(batch)
                ]
                judge(found, answer.high_watermark)

        self._send(fetch_of((TOPIC, index, 0)), 12, answered)

    # Background tasks

    def work(self) -> None:
        """One task goes on."""
        self.background.go_on(self.node)

    def be_quiet(self) -> None:
        """Time passes and every task ends."""
        for _ in range(3):
            self.node.pass_ms(INTERVAL_MS)
            self.background.finish(self.node)
        self.take_answers()

    def settle(self) -> None:
        """Without faults everything is served again. Raises Violation."""
        self.disk.bad_syncs.clear()
        self.disk.bad_writes.clear()
        self.node.pass_ms(3_000)
        self.be_quiet()
        self.node.pass_ms(3_000)
        self.be_quiet()
        require(not self.asked, "never-answered", f"{len(self.asked)} requests")
        self.faulted.clear()
        for index in PARTITIONS:
            self.fetch(index, self.records[index].complete)
        self.fetch_offsets(list(GROUPS))
        for group_id in GROUPS:
            self.commit(group_id)
        self.produce(PARTITIONS)
        self.be_quiet()
        require(not self.asked, "never-answered", f"{len(self.asked)} requests, in the end")
        self._promise_what_is_safe()

    def _promise_what_is_safe(self) -> None:
        for offsets in self.offsets.values():
            offsets.quiet()
        for records in self.records.values():
            records.quiet()

    # Crashes

    def crash(self, *, loses_power: bool) -> None:
        """The process ends as it stands; another one starts."""
        self.asked.clear()
        self.background.end()
        storage: Any = self.node.storage
        storage._directory._lock.release()  # the kernel does, when a process is gone
        self.disk.end_process()
        if loses_power:
            self.disk.lose_power(self.rng)
            for offsets in self.offsets.values():
                offsets.power_lost()
            for records in self.records.values():
                records.power_lost()
        self.node = self._start()

    def restart(self) -> None:
        """The process ends in peace."""
        self.asked.clear()
        self.disk.bad_syncs.clear()
        while self.background.is_under_way:
            self.work()
        for topic in self.node.cluster.topics:  # a log that nobody used is not synced at the end either
            for partition in topic.partitions:
                with suppress(LogError):
                    assert partition.log.end_offset >= 0
        self.node.close()
        self._promise_what_is_safe()
        self.node = self._start()

    # One step

    def step(self) -> None:
        """Something happens. Raises Violation."""
        (what,) = self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        self.done.append(what)
        rng = self.rng
        match what:
            case "commit":
                self.commit(rng.choice(GROUPS))
            case "fetch offsets":
                self.fetch_offsets(rng.sample(GROUPS, rng.randint(1, len(GROUPS))))
            case "produce":
                self.produce(rng.choice(((0,), (1,), (0, 1))))
            case "fetch":
                index = rng.choice(PARTITIONS)
                self.fetch(index, lambda found, _end: self.records[index].read(found))
            case "work":
                for _ in range(rng.randint(1, 6)):
                    self.work()
            case "time":
                self.node.pass_ms(rng.randint(1, INTERVAL_MS))
            case "break":
                folder = rng.choice(self.folders)
                self.faulted.add(folder)
                rng.choice((self.disk.bad_syncs, self.disk.bad_writes)).add(folder)
            case "mend":
                self.disk.bad_syncs.clear()
                self.disk.bad_writes.clear()
            case "kill":
                self.crash(loses_power=False)
            case "power":
                self.crash(loses_power=True)
            case "restart":
                self.restart()
            case "settle":
                self.settle()
            case _:
                raise ValueError(what)
        self.take_answers()


_WEIGHTS = {
    "commit": 20,
    "fetch offsets": 12,
    "produce": 12,
    "fetch": 8,
    "work": 40,
    "time": 6,
    "break": 1.5,
    "mend": 3,
    "kill": 0.7,
    "power": 1,
    "restart": 0.4,
    "settle": 1,
}


def run(seed: int, steps: int, policy: FsyncPolicy, folder: Path) -> Run:
    """One broker's life of `steps` steps in an empty `folder`, and its end in peace."""
    done: list[str] = []
    world = _World(Random(f"{seed} {policy}"), policy, folder, done)
    violation = None
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    except Violation as found:
        violation = found
    finally:
        storage: Any = world.node.storage
        storage._directory._lock.release()
        world.disk.end_process()
    return Run(seed, done, violation)
