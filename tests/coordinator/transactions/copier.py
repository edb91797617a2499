"""An honest producer that copies in transactions, and goes on after whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.transactions.broker_model import PARTITIONS, TOPIC, BrokerModel, Produced
from tests.coordinator.transactions.harness import Call

COMMITTED, ABORTED = "committed", "aborted"
_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

Answer = Call[Any] | Produced
Course = Generator[Answer, None, None]


class Lost(Exception):
    """The broker is gone, and with it the answer that was waited for."""


class Refused(Exception):
    """A request failed for good: the next producer of the id begins."""


class Copier:
    """One transaction after the other, one request at a time, with values that ascend.

    `partitions` tells where each value was to be written, `outcomes` what was told of its transaction. When an answer is
    lost it begins anew, as another process would, unless it was that to EndTxn: that may be asked again, as clients do.
    """

    def __init__(self, broker: BrokerModel, serial: int, random: Random) -> None:
        self._broker = broker
        self._random = random
        self.transactional_id = f"x{serial}"
        self.group_id = f"g{serial}"
        self.partitions: dict[int, list[int]] = {}
        self.outcomes: dict[int, str] = {}
        self._value = serial * 1000
        self._producer = (self.transactional_id, -1, -1)
        self.fenced: list[tuple[str, int, int]] = []
        """Who this copier was before: processes that may still be running, and batches that may still come."""
        self._is_version_2 = broker.level >= 2
        self._ending: bool | None = None
        self._is_sending = False
        self._course = self._copy()
        self._answer: Answer | None = None

    def step(self) -> None:
        """Send the next request if the last one was answered. Raises Crash."""
        if self._answer is None or not self._answer.is_parked:
            self._answer = None
            self._is_sending = True
            self._answer = next(self._course)
            self._is_sending = False

    def write(self, producer: tuple[str, int, int], partition: int, value: int) -> Produced:
        """As clients of this level write. Raises Crash."""
        write = self._broker.add_and_produce if self._is_version_2 else self._broker.produce
        return write(producer, partition, value)

    def lose(self) -> None:
        """The broker has crashed; it may have been this copier's request in which it did. Raises Crash."""
        if self._is_sending or self._random.random() < 0.5:  # the crash went through it, or it dies itself
            self._is_sending = False
            self._course.close()
            self._course = self._copy(after=self._ending if self._random.random() < 0.5 else None)
            self._answer = None
        elif self._answer is not None:
            self._answer = self._course.throw(Lost())

    def _copy(self, after: bool | None = None) -> Course:
        while True:
            try:
                if after is not None:
                    yield from self._ends(commit=after)
                    after = None
                self._ending = None
                yield from self._begins()
                while True:
                    yield from self._transaction()
            except (Lost, Refused):
                after = None

    def _begins(self) -> Course:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
        while error in _AGAIN:
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
            call = self._broker.ask(self._broker.transactions.init_producer_id, request, 5)
            yield call
            error = call.error
        _require(error)
        self.fenced.append(self._producer)
        self._producer = (self.transactional_id, call.reply.producer_id, call.reply.producer_epoch)

    def _transaction(self) -> Course:
        broker, random = self._broker, self._random
        self._value += 1
        partitions = self.partitions[self._value] = random.sample(range(PARTITIONS), random.randint(1, PARTITIONS))
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer[1],
            v3_and_below_producer_epoch=self._producer[2],
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=tuple(partitions)),),
        )
        if not self._is_version_2:
            yield from self._asks(broker.ask(broker.transactions.add_partitions_to_txn, adding, 3))
        for partition in partitions:
            produced = self.write(self._producer, partition, self._value)
            yield produced
            _require(produced.error)
        if not self._is_version_2:
            joining = AddOffsetsToTxnRequest(**self._named(), group_id=self.group_id)
            yield from self._asks(broker.ask(broker.transactions.add_offsets_to_txn, joining, 3))
        yield from self._commits_offset()
        yield from self._ends(commit=random.random() < 0.7)

    def _commits_offset(self) -> Course:
        broker, producer = self._broker, self._producer
        offset = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._value, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            **self._named(),
            group_id=self.group_id,
            topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(offset,)),),
        )
        call = Call(request, 5 if self._is_version_2 else 3)

        def commit(verify: Callable[[int], ErrorCode]) -> None:
            broker.apply(broker.groups.txn_offset_commit(request, broker.context(call.version), call, verify))

        if self._is_version_2:
            home = broker.groups.partition_for(self.group_id)
            broker.add(producer, OFFSETS_TOPIC, home, lambda error: commit(lambda _: error))
        else:
            commit(lambda partition: broker.transactions.verify(*producer, OFFSETS_TOPIC, partition))
        yield call
        _require(ErrorCode(call.reply.topics[0].partitions[0].error_code))

    def _ends(self, *, commit: bool) -> Course:
        self._ending = commit
        while self._ending is not None:
            request = EndTxnRequest(**self._named(), committed=commit)
            call = self._broker.ask(self._broker.transactions.end_txn, request, 5 if self._is_version_2 else 4)
            try:
                yield call
            except Lost:
                continue
            if call.error in _AGAIN:
                continue
            self._ending = None
            if call.error is ErrorCode.NONE:
                self.outcomes[self._value] = COMMITTED if commit else ABORTED
            _require(call.error)
            if self._is_version_2:
                self.fenced.append(self._producer)
                self._producer = (self.transactional_id, call.reply.producer_id, call.reply.producer_epoch)

    def _asks(self, call: Call[Any]) -> Course:
        yield call
        _require(call.error)

    def _named(self) -> dict[str, Any]:
        transactional_id, producer_id, epoch = self._producer
        return {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


def _require(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise Refused
