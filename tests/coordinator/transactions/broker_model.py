"""A broker in miniature: both coordinators, their logs and some data partitions, whose process or power may fail at any write.

Honest producers copy: each transaction writes one value to several partitions and commits that value as the offset of the
producer's group. What is read at the end must be whole transactions, and the offsets must agree with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Append, Marker, Now, RequestContext, Step
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.coordinator import TransactionCoordinator
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kshim_protocol.records.batch import parse_batch_header, set_base_offset
from tests.coordinator.transactions.harness import START_MONO_MS, START_WALL_MS, Call, Catalog, records_in

TOPIC = "t"
PARTITIONS = 3
Where = tuple[str, int]


class Crash(Exception):
    """The process is gone."""


class Produced:
    """The answer to a Produce, which may wait."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error
        self.is_parked = True

    def answer(self) -> None:
        """It is as durable as was promised."""
        self.is_parked = False


class _Adding(Call[AddPartitionsToTxnResponse]):
    """A request of the broker itself."""

    __slots__ = ("_then",)

    def __init__(self, request: AddPartitionsToTxnRequest, then: Callable[[ErrorCode], None]) -> None:
        super().__init__(request, 5)
        self._then = then

    def complete(self, response: AddPartitionsToTxnResponse) -> None:
        """It is as durable as answers wait for."""
        super().complete(response)
        ((found,),) = (topic.results_by_partition for topic in self.reply.results_by_transaction[0].topic_results)
        self._then(ErrorCode(found.partition_error_code))


class Log:
    """Batches, or the entries of a data partition. `durable_count` of them survive a loss of power."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.durable_count = 0
        self.waits: deque[tuple[int, Callable[[], None]]] = deque()


class BrokerModel:
    """`waits_for_power`: replies, markers and ends wait until `sync`, as under --fsync=always; else nothing waits.

    `crash_at` counts writes down; when it is reached the process is gone, before or after that write. `level` is that of
    transaction.version.
    """

    def __init__(self, *, waits_for_power: bool = False, level: int = 0) -> None:
        self.waits_for_power = waits_for_power
        self.level = level
        self.mono_ms = START_MONO_MS
        self.topics = Catalog({TOPIC: PARTITIONS, OFFSETS_TOPIC: 4, TRANSACTIONS_TOPIC: 4})
        self.logs: dict[Where, Log] = {}
        self.writes = 0
        self.crash_at: int | None = None
        self.crashes_after = False
        self._producer_ids = count(1000)
        self._new_coordinators()

    def _new_coordinators(self) -> None:
        self.groups = GroupCoordinator(
            GroupConfig(offsets_topic_num_partitions=4), topics=self.topics, new_id=lambda: "unused"
        )
        self.transactions = TransactionCoordinator(
            TransactionConfig(transaction_state_log_num_partitions=4),
            topics=self.topics,
            new_producer_id=lambda: next(self._producer_ids),
            offsets_partition_for=self.groups.partition_for,
            transaction_version=lambda: self.level,
        )

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, START_WALL_MS + self.mono_ms - START_MONO_MS)

    def log(self, topic: str, partition: int) -> Log:
        """One log, made on first use."""
        return self.logs.setdefault((topic, partition), Log())

    # Requests

    def context(self, version: int) -> RequestContext:
        return RequestContext(version, "model", "/127.0.0.1", self.now)

    def ask(self, handler: Callable[..., Step], request: Any, version: int, *more: Any) -> Call[Any]:
        """One request to a coordinator. Raises Crash."""
        call: Call[Any] = Call(request, version)
        self.apply(handler(request, self.context(version), call, *more))
        return call

    def produce(self, producer: tuple[str, int, int], partition: int, value: int) -> Produced:
        """A transactional batch of one value. Raises Crash."""
        produced = Produced(ErrorCode.NONE)
        self._produce(producer, partition, value, produced, self.transactions.verify(*producer, TOPIC, partition))
        return produced

    def add_and_produce(self, producer: tuple[str, int, int], partition: int, value: int) -> Produced:
        """The same of a client of version 2: the broker adds the partition first. Raises Crash."""
        produced = Produced(ErrorCode.NONE)
        self.add(producer, TOPIC, partition, lambda error: self._produce(producer, partition, value, produced, error))
        return produced

    def add(
        self, producer: tuple[str, int, int], topic: str, partition: int, then: Callable[[ErrorCode], None]
    ) -> None:
        """Add a partition on behalf of a client that writes to it; what follows waits until that is durable."""
        transactional_id, producer_id, epoch = producer
        batch = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=False,
            topics=(AddPartitionsToTxnTopic(name=topic, partitions=(partition,)),),
        )
        request = AddPartitionsToTxnRequest(transactions=(batch,))
        adding = _Adding(request, then)
        self.apply(self.transactions.add_partitions_to_txn(request, self.context(adding.version), adding))

    def _produce(
        self, producer: tuple[str, int, int], partition: int, value: int, produced: Produced, error: ErrorCode
    ) -> None:
        log = self.log(TOPIC, partition)
        newest = max((epoch for _, producer_id, epoch, _ in log.entries if producer_id == producer[1]), default=-1)
        produced.error = ErrorCode.INVALID_PRODUCER_EPOCH if not error and producer[2] < newest else error
        if produced.error is ErrorCode.NONE:
            self._write(log, ("data", producer[1], producer[2], value))
            self._when_durable([log], produced.answer)
        else:
            produced.answer()

    # Effects

    def apply(self, step: Step) -> None:
        """As `StepApplier.apply`."""
        for append in step.appends:
            append.written(self._append(step.topic, append), step)
        logs = {append.partition for append in step.appends} | set(step.partitions)
        replies = list(step.replies)

        def answer() -> None:
            for ticket, response in replies:
                ticket.complete(response)  # type: ignore[attr-defined]

        of_step = [self.log(step.topic, index) for index in sorted(logs)]
        self._when_durable(of_step, answer)
        for then in step.once_durable:
            self._when_durable(of_step, self._following(then))
        for marker in step.markers:
            self._mark(marker)

    def _append(self, topic: str, append: Append) -> int:
        log = self.log(topic, append.partition)
        base_offset = 0
        if log.entries:
            base_offset = parse_batch_header(log.entries[-1]).last_offset + 1
        self._write(log, set_base_offset(append.batch, base_offset))
        return base_offset

    def _mark(self, marker: Marker) -> None:
        log = self.log(marker.topic, marker.partition)
        if marker.topic == OFFSETS_TOPIC:
            try:
                step = self.groups.end_transaction(
                    marker.partition,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    is_commit=marker.is_commit,
                    coordinator_epoch=marker.coordinator_epoch,
                    now=marker.now,
                    ended=lambda _error: None,
                )
            except KafkaError as error:
                self._following(lambda code=error.code: marker.settle(code))()  # type: ignore[misc]
                return
            for append in step.appends:
                append.written(self._append(step.topic, append), step)
        else:
            outcome = "commit" if marker.is_commit else "abort"
            self._write(log, (outcome, marker.producer_id, marker.producer_epoch, None))
        self._when_durable([log], self._following(lambda: marker.settle(ErrorCode.NONE)))

    def _following(self, then: Callable[[], Step | None]) -> Callable[[], None]:
        def follow() -> None:
            step = then()
            if step is not None:
                self.apply(step)

        return follow

    def _write(self, log: Log, entry: Any) -> None:
        self.writes += 1
        is_last = self.writes == self.crash_at
        if is_last and not self.crashes_after:
            raise Crash
        log.entries.append(entry)
        if not self.waits_for_power:
            log.durable_count = len(log.entries)
        if is_last:
            raise Crash

    def _when_durable(self, logs: list[Log], then: Callable[[], None]) -> None:
        waiting = [log for log in logs if log.durable_count < len(log.entries)]
        if not waiting:
            then()
            return
        left = len(waiting)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for log in waiting:
            log.waits.append((len(log.entries), one_less))

    def sync(self, log: Log) -> None:
        """What is in a log by now survives a loss of power; who waited for that goes on. Raises Crash."""
        log.durable_count = len(log.entries)
        while log.waits and log.waits[0][0] <= log.durable_count:
            log.waits.popleft()[1]()

    def sync_all(self) -> None:
        """Until nobody waits."""
        while any(log.durable_count < len(log.entries) for log in self.logs.values()):
            for log in list(self.logs.values()):
                self.sync(log)

    # Time and crashes

    def pass_ms(self, ms: int) -> None:
        """Timers of transactions fire. Raises Crash."""
        end_ms = self.mono_ms + ms
        while (due_ms := self.transactions.next_deadline()) is not None and due_ms <= end_ms:
            self.mono_ms = max(self.mono_ms, due_ms)
            self.apply(self.transactions.advance(self.now))
        self.mono_ms = end_ms

    def restart(self, random: Random) -> None:
        """The process is gone, or the power: then each log loses some of what was not durable. Raises Crash."""
        self.crash_at = None
        for log in self.logs.values():
            log.waits.clear()
            del log.entries[random.randint(log.durable_count, len(log.entries)) :]
            log.durable_count = len(log.entries)
        self._new_coordinators()
        self.load(random)

    def load(self, random: Random) -> None:
        """All shards from their logs, in any order. Raises Crash."""
        for index in range(4):
            self.groups.begin_load(index)
            self.transactions.begin_load(index)
        shards = [(topic, index) for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) for index in range(4)]
        random.shuffle(shards)
        for topic, index in shards:
            coordinator: Any = self.groups if topic == OFFSETS_TOPIC else self.transactions
            coordinator.replay(index, list(self.log(topic, index).entries))
            self.apply(coordinator.finish_load(index, self.now))

    # What is there

    def visible(self, partition: int) -> list[int]:
        """What a reader of committed records sees of a data partition."""
        undecided: dict[int, list[int]] = {}
        found: list[int] = []
        for kind, producer_id, _, value in self.log(TOPIC, partition).entries:
            if kind == "data":
                undecided.setdefault(producer_id, []).append(value)
            elif kind == "commit":
                found += undecided.pop(producer_id, [])
            else:
                undecided.pop(producer_id, None)
        return found

    def undecided(self) -> list[Any]:
        """Data whose transaction has no end."""
        left: dict[Where, Any] = {}
        for partition in range(PARTITIONS):
            for kind, producer_id, _, value in self.log(TOPIC, partition).entries:
                if kind == "data":
                    left[str(partition), producer_id] = value
                else:
                    left.pop((str(partition), producer_id), None)
        return list(left.values())

    def offset(self, group_id: str) -> int | None:
        """The offset a group has committed."""
        shard = self.groups.shard_of(group_id)
        committed = None if shard is None else shard.offsets.get(group_id, TOPIC, 0)
        return None if committed is None else committed.offset

    def has_pending(self, group_id: str) -> bool:
        """Whether an offset of the group waits for the end of a transaction."""
        shard = self.groups.shard_of(group_id)
        return shard is not None and shard.offsets.has_open_transaction(group_id)

    def epochs(self) -> dict[str, list[tuple[int, int]]]:
        """(producer id, epoch) in the records of each id, in the order of the log."""
        found: dict[str, list[tuple[int, int]]] = {}
        for index in range(4):
            for key, value in records_in(self.log(TRANSACTIONS_TOPIC, index).entries):
                if value is not None:
                    found.setdefault(key.transactional_id, []).append((value.producer_id, value.producer_epoch))
        return found
