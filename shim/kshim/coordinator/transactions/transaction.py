"""One transactional id: what its log record says of it, and how that changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kshim.coordinator.step import Now, Step
from kshim.coordinator.transactions.events import TransactionCause, transition
from kshim.coordinator.transactions.state import VALID_PREVIOUS, TransactionState, state_of
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.transaction_log import PartitionsSchema, TransactionLogValue

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 32_766
"""The last epoch a client is given; the one after it only fences. Kafka: TransactionMetadata.isEpochExhausted."""

TransactionPartition = tuple[str, int]
"""Topic and partition."""


class Facts(NamedTuple):
    """All there is to know of a transactional id. Times in Unix ms; `start_ms` -1: no transaction was ever open.

    The last producer id and epoch are those before the current ones, for a client that did not get the answer (KIP-360).
    `next_producer_id`: the one that the id goes on with once the markers are written, where its epochs are used up.
    `client_version`: 2 where the latest change was asked for by a client of transaction.version 2, 0 otherwise (KIP-890).
    Records have these, but for the last epoch, from transaction.version 1 on.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TransactionPartition] = frozenset()
    start_ms: int = -1
    update_ms: int = -1
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0


class Transaction:
    """One transactional id in memory. `facts` are those of its newest record.

    `unmarked`: while the outcome stands, the partitions whose marker is still to be written.
    """

    __slots__ = ("facts", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, facts: Facts) -> None:
        self.transactional_id = transactional_id
        self.facts = facts
        self.unmarked: set[TransactionPartition] = set(facts.partitions) if facts.state.is_decided else set()

    @property
    def state(self) -> TransactionState:
        """Its state, which only `move_to` changes."""
        return self.facts.state

    def move_to(self, facts: Facts, *, cause: TransactionCause, partition: int, now: Now, step: Step) -> None:
        """The record of `facts` is in the log of shard `partition`: they hold from now on."""
        previous = self.facts.state
        assert previous in VALID_PREVIOUS[facts.state], f"{self.transactional_id}: {previous} -> {facts.state}"
        assert facts.producer_id != self.facts.producer_id or facts.producer_epoch >= self.facts.producer_epoch
        step.events.append(
            transition(cause)(
                partition=partition,
                now=now,
                transactional_id=self.transactional_id,
                previous=previous,
                new=facts.state,
                cause=cause,
                producer_id=facts.producer_id,
                producer_epoch=facts.producer_epoch,
                partition_count=len(facts.partitions),
            )
        )
        self.facts = facts
        self.unmarked = set(facts.partitions) if facts.state.is_decided else set()


def value_of(facts: Facts, version: int = 0) -> TransactionLogValue:
    """The record's value, of that version.

    As in Kafka an Empty id has no list of partitions, any other one has, perhaps an empty one.
    """
    return TransactionLogValue(
        **_tags(facts) if version >= 1 else {},
        producer_id=facts.producer_id,
        producer_epoch=facts.producer_epoch,
        transaction_timeout_ms=facts.timeout_ms,
        transaction_status=facts.state.id,
        transaction_partitions=None if facts.state is TransactionState.EMPTY else _by_topic(facts.partitions),
        transaction_last_update_timestamp_ms=facts.update_ms,
        transaction_start_timestamp_ms=facts.start_ms,
    )


def _tags(facts: Facts) -> dict[str, int]:
    return {
        "previous_producer_id": facts.last_producer_id,
        "next_producer_id": facts.next_producer_id,
        "client_transaction_version": facts.client_version,
    }


def facts_of(value: TransactionLogValue) -> Facts:
    """What a record says. Raises ProtocolError for a state that does not exist."""
    state = state_of(value.transaction_status)
    if state is None or state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise ProtocolError(
            f"no record has state {value.transaction_status}",
            message="TransactionLogValue",
            field="transaction_status",
            offset=0,
        )
    return Facts(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TransactionPartition]) -> tuple[PartitionsSchema, ...]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsSchema(topic=topic, partition_ids=tuple(indexes)) for topic, indexes in topics.items())
