"""One partition of `__transaction_state` in memory: its transactional ids, and how records change them."""

from __future__ import annotations

from collections.abc import Callable

from kshim.coordinator.deadlines import Deadlines, Key
from kshim.coordinator.runtime import CoordinatorShard
from kshim.coordinator.step import TRANSACTIONS_TOPIC, Append, Now, Step
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.events import TransactionCause
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import Facts, Transaction, value_of
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.transaction_records import (
    build_transaction_key,
    build_transaction_value,
    value_version,
)
from kshim_protocol.records.batch import build_key_value_batch

_NO_SEQUENCE = -1


class TransactionShard(CoordinatorShard):
    """Transactional ids of one partition. `change` and `forget` are what records mean once they are in the log."""

    topic = TRANSACTIONS_TOPIC

    def __init__(
        self,
        partition: int,
        *,
        config: TransactionConfig,
        new_producer_id: Callable[[], int],
        offsets_partition_for: Callable[[str], int],
        deadlines: Deadlines,
        coordinator_epoch: int,
        transaction_version: Callable[[], int],
        is_loading: bool,
    ) -> None:
        super().__init__(partition, deadlines, is_loading=is_loading)
        self.config = config
        self.new_producer_id = new_producer_id
        self.offsets_partition_for = offsets_partition_for
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.transactions: dict[str, Transaction] = {}

    def require(self, transactional_id: str) -> Transaction:
        """The transaction of an id. Raises KafkaError: INVALID_PRODUCER_ID_MAPPING."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"unknown transactional id {transactional_id!r}")
        return transaction

    def holds(self, transaction: Transaction, facts: Facts) -> bool:
        """Whether `transaction` is still in here, and still as it was with `facts`."""
        return self.transactions.get(transaction.transactional_id) is transaction and transaction.facts is facts

    def append(
        self,
        step: Step,
        transactional_id: str,
        facts: Facts | None,
        now: Now,
        *,
        written: Callable[[int, Step], None],
        failed: Callable[[ErrorCode, Step], None],
    ) -> None:
        """Have the record of `facts` written, a tombstone for None."""
        version = value_version(self.transaction_version())
        value = None if facts is None else build_transaction_value(value_of(facts, version), version)
        batch = build_key_value_batch(
            [(build_transaction_key(transactional_id), value)], now.wall_ms, base_sequence=_NO_SEQUENCE
        )
        step.appends.append(Append(self.partition, batch, written, failed))

    def change(self, transaction: Transaction, facts: Facts, cause: TransactionCause, now: Now, step: Step) -> None:
        """The record of `facts` is in the log."""
        self.transactions[transaction.transactional_id] = transaction
        transaction.move_to(facts, cause=cause, partition=self.partition, now=now, step=step)
        self.rearm(transaction, now)

    def forget(self, transaction: Transaction, now: Now, step: Step) -> None:
        """The tombstone of an id that has expired is in the log."""
        dead = transaction.facts._replace(state=TransactionState.DEAD)
        transaction.move_to(dead, cause=TransactionCause.EXPIRED, partition=self.partition, now=now, step=step)
        del self.transactions[transaction.transactional_id]
        self.deadlines.cancel(self.key_of(transaction))

    # Time

    @staticmethod
    def key_of(transaction: Transaction) -> Key:
        """Of its one deadline; what it is for follows from its state."""
        return ("transaction", transaction.transactional_id)

    def rearm(self, transaction: Transaction, now: Now) -> None:
        """Set the deadline of an open transaction, or of an idle id. One that is decided waits for its markers."""
        facts = transaction.facts
        if facts.state.is_decided:
            self.deadlines.cancel(self.key_of(transaction))
            return
        if facts.state is TransactionState.ONGOING:
            at_wall_ms = facts.start_ms + facts.timeout_ms
        else:
            at_wall_ms = facts.update_ms + self.config.transactional_id_expiration_ms
        self.deadlines.set(self.key_of(transaction), now.mono_ms + max(0, at_wall_ms - now.wall_ms))
