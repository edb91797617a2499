"""The transaction coordinator in a world of its own: a hand-set clock, logs in memory, partitions that take markers.

    world = World(topics={"t": 2})
    producer = world.init("x")                      # a Producer: id and epoch
    producer.add(("t", 0)); producer.end(committed=True)
    assert world.markers == [("t", 0, producer.key, "commit")]
    world.restart()                                 # a crash: only the logs are left

Every request and reply goes through its codec.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar

from kshim.coordinator.step import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Append,
    Event,
    Marker,
    Now,
    RequestContext,
    Step,
    Ticket,
)
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.coordinator import TransactionCoordinator
from kshim.coordinator.transactions.transaction import Transaction
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from kshim_protocol.internal.transaction_records import parse_transaction_key, parse_transaction_value
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kshim_protocol.records.batch import set_base_offset
from kshim_protocol.records.record import iter_records
from kshim_protocol.schema import Request, Struct

R = TypeVar("R", bound=Struct)

START_MONO_MS = 1_000_000
START_WALL_MS = 1_700_000_000_000
GROUP_PARTITION = 7
"""Where every group lives in this world."""


class Catalog:
    """Implements `TopicCatalog`: the number of partitions by name."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.version = 0

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def topic_id(self, name: str) -> bytes | None:
        return name.encode().ljust(16, b"\0") if name in self.counts else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.counts if self.topic_id(name) == topic_id), None)


class Call(Ticket, Generic[R]):
    """One request on its way."""

    __slots__ = ("_reply", "request", "version")

    def __init__(self, request: Request[R], version: int) -> None:
        self.request = request
        self.version = version
        self._reply: R | None = None

    @property
    def is_parked(self) -> bool:
        """Whether it has no answer yet."""
        return self._reply is None

    @property
    def reply(self) -> R:
        """The answer."""
        assert self._reply is not None, f"{type(self.request).__name__} has no answer"
        return self._reply

    @property
    def error(self) -> ErrorCode:
        """The answer's top-level error, or that of its only partition."""
        reply: Any = self.reply
        if hasattr(reply, "results_by_topic_v3_and_below"):
            return ErrorCode(reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        return ErrorCode(reply.error_code)

    def complete(self, response: Any) -> None:
        """The answer arrives, through its codec."""
        assert self._reply is None, f"a second reply to {self.request}: {response}"
        coder = codec(type(response), self.version)
        parsed, _ = coder.parse(coder.build(response), 0)
        self._reply = parsed


class Producer:
    """A producer that knows what it was told: id and epoch."""

    def __init__(self, world: World, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        self.world = world
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    @property
    def key(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    def add(self, *partitions: tuple[str, int], version: int = 3) -> ErrorCode:
        """AddPartitionsToTxn; the error of the first partition."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
            ),
        )
        return self.world.ask(request, version).error

    def add_group(self, group_id: str = "g", version: int = 3) -> ErrorCode:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group_id,
        )
        return self.world.ask(request, version).error

    def ending(self, *, committed: bool, version: int = 4) -> Call[Any]:
        """EndTxn, perhaps not answered yet."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        return self.world.ask(request, version)

    def end(self, *, committed: bool, version: int = 4) -> ErrorCode:
        """EndTxn."""
        return self.ending(committed=committed, version=version).error

    def may_write(self, topic: str, partition: int) -> ErrorCode:
        """What a Produce of it would be told."""
        return self.world.coordinator.verify(
            self.transactional_id, self.producer_id, self.producer_epoch, topic, partition
        )


class World:
    """A coordinator, its logs, the partitions it writes markers to, and its time.

    `markers` are all that were written: (topic, partition, (producer id, epoch), "commit" or "abort").
    """

    level = 0
    """The level of transaction.version that a world has; may be changed at any time."""

    def __init__(self, topics: Mapping[str, int] | None = None, **config: int) -> None:
        self.config = TransactionConfig(**config)
        self.topics = Catalog(topics if topics is not None else {"t": 3, OFFSETS_TOPIC: 50, TRANSACTIONS_TOPIC: 50})
        self.mono_ms = START_MONO_MS
        self.wall_ms = START_WALL_MS
        self.logs: dict[int, list[bytes]] = {}
        self.markers: list[tuple[str, int, tuple[int, int], str]] = []
        self.events: list[Event] = []
        self.append_errors: deque[ErrorCode] = deque()
        self.marker_errors: dict[tuple[str, int], ErrorCode] = {}
        self.before_write: Callable[[Append | Marker], None] = lambda _: None
        self.after_write: Callable[[Append | Marker], None] = lambda _: None
        self._producer_ids = count(1000)
        self._held: list[Callable[[], Step | None]] | None = None
        self.coordinator = self._new_coordinator()

    def _new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.config,
            topics=self.topics,
            new_producer_id=lambda: next(self._producer_ids),
            offsets_partition_for=lambda group_id: GROUP_PARTITION,
            transaction_version=lambda: self.level,
        )

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, self.wall_ms)

    # Requests

    def ask(self, request: Request[R], version: int) -> Call[R]:
        """Send a request through its codec and apply the step."""
        coder = codec(type(request), version)
        parsed, _ = coder.parse(coder.build(request), 0)
        call = Call(request, version)
        context = RequestContext(version, "tester", "/127.0.0.1", self.now)
        coordinator = self.coordinator
        handlers: dict[type, Callable[..., Step]] = {
            InitProducerIdRequest: coordinator.init_producer_id,
            AddPartitionsToTxnRequest: coordinator.add_partitions_to_txn,
            AddOffsetsToTxnRequest: coordinator.add_offsets_to_txn,
            EndTxnRequest: coordinator.end_txn,
            DescribeTransactionsRequest: coordinator.describe_transactions,
            ListTransactionsRequest: coordinator.list_transactions,
        }
        self.apply(handlers[type(request)](parsed, context, call))
        return call

    def initializing(
        self, transactional_id: str, *, known: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000, version: int = 5
    ) -> Call[Any]:
        """InitProducerId."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=known[0],
            producer_epoch=known[1],
        )
        return self.ask(request, version)

    def init(self, transactional_id: str, *, known: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> Producer:
        """InitProducerId that must succeed."""
        reply = self.initializing(transactional_id, known=known, timeout_ms=timeout_ms).reply
        assert reply.error_code == ErrorCode.NONE, ErrorCode(reply.error_code)
        return Producer(self, transactional_id, reply.producer_id, reply.producer_epoch)

    def describe(self, transactional_id: str) -> TransactionState:
        """DescribeTransactions of one id."""
        return self.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0).reply.transaction_states[
            0
        ]

    def listing(self, **filters: Any) -> ListTransactionsResponse:
        """ListTransactions."""
        given = {"state_filters": (), "producer_id_filters": (), **filters}
        return self.ask(ListTransactionsRequest(**given), 1).reply

    def transaction(self, transactional_id: str) -> Transaction:
        """What is in memory."""
        found = self.coordinator.transaction(transactional_id)
        assert found is not None
        return found

    # Effects

    @contextmanager
    def nothing_becomes_durable(self) -> Iterator[None]:
        """Until the end of the block; then everything does, in order."""
        self._held = []
        yield
        held, self._held = self._held, None
        for durable in held:
            self._follow(durable)

    def apply(self, step: Step) -> None:
        """As the broker does: appends, replies, events, then what is to follow."""
        for append in step.appends:
            self.before_write(append)
            if self.append_errors:
                append.failed(self.append_errors.popleft(), step)
                continue
            append.written(self._append(append), step)
            self.after_write(append)
        for ticket, response in step.replies:
            ticket.complete(response)  # type: ignore[attr-defined]
        self.events += step.events
        for then in step.once_durable:
            self._when_durable(then)
        for marker in step.markers:
            self._mark(marker)

    def _append(self, append: Append) -> int:
        log = self.logs.setdefault(append.partition, [])
        log.append(set_base_offset(append.batch, len(log)))
        return len(log) - 1

    def _mark(self, marker: Marker) -> None:
        self.before_write(marker)
        error = self.marker_errors.get((marker.topic, marker.partition), ErrorCode.NONE)
        if error is ErrorCode.NONE:
            outcome = "commit" if marker.is_commit else "abort"
            producer = (marker.producer_id, marker.producer_epoch)
            self.markers.append((marker.topic, marker.partition, producer, outcome))
            self.after_write(marker)
            self._when_durable(lambda: marker.settle(ErrorCode.NONE))
        else:
            self._follow(lambda: marker.settle(error))

    def _when_durable(self, then: Callable[[], Step | None]) -> None:
        if self._held is None:
            self._follow(then)
        else:
            self._held.append(then)

    def _follow(self, then: Callable[[], Step | None]) -> None:
        step = then()
        if step is not None:
            self.apply(step)

    # Time, crashes

    def pass_ms(self, ms: int) -> None:
        """Timers fire in order, each at its own instant."""
        end_ms = self.mono_ms + ms
        while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= end_ms:
            self._move_to(max(due_ms, self.mono_ms))
            self.apply(self.coordinator.advance(self.now))
        self._move_to(end_ms)

    def _move_to(self, mono_ms: int) -> None:
        self.wall_ms += mono_ms - self.mono_ms
        self.mono_ms = mono_ms

    def restart(self) -> None:
        """Crash: what was not written is forgotten, and a new coordinator reads the logs."""
        self._held = None
        self.coordinator = self._new_coordinator()
        for partition in list(self.logs):
            self.load(partition)

    def load(self, partition: int) -> None:
        """Read one shard that is not there."""
        self.coordinator.begin_load(partition)
        self.coordinator.replay(partition, self.logs.get(partition, []))
        self.apply(self.coordinator.finish_load(partition, self.now))

    def records(self, transactional_id: str) -> list[TransactionLogValue | None]:
        """All records of an id, None for tombstones."""
        log = self.logs.get(self.coordinator.partition_for(transactional_id), [])
        return [value for key, value in records_in(log) if key.transactional_id == transactional_id]


def records_in(log: list[bytes]) -> Iterator[tuple[TransactionLogKey, TransactionLogValue | None]]:
    """The records of one log."""
    for batch in log:
        for record in iter_records(batch):
            assert record.key is not None
            key = parse_transaction_key(record.key)
            assert isinstance(key, TransactionLogKey)
            yield key, None if record.value is None else parse_transaction_value(record.value)
