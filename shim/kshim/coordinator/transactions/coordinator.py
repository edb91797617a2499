"""The transaction coordinator as the broker sees it: its APIs, and what its shards do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Key
from kshim.coordinator.runtime import CoordinatorRuntime, in_all_shards, in_many_shards, in_one_shard
from kshim.coordinator.step import TRANSACTIONS_TOPIC, Now, RequestContext, Step, Ticket
from kshim.coordinator.transactions import describe_transactions, end_txn, init_producer_id
from kshim.coordinator.transactions.add_partitions import (
    add_batches_to_txn,
    add_offsets_to_txn,
    add_partitions_to_txn,
    partition_errors,
    refused,
    verified,
)
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.end_txn import abort
from kshim.coordinator.transactions.events import TransactionCause, TransactionRecordsSkipped
from kshim.coordinator.transactions.markers import end_decided, write_markers
from kshim.coordinator.transactions.replay import TransactionReplay
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import Transaction
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from kshim_protocol.schema import Request

_FENCED_SINCE: dict[type[Request[Any]], int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""Version of each API that knows PRODUCER_FENCED; earlier ones are answered INVALID_PRODUCER_EPOCH (KIP-588)."""
_BATCHED_SINCE = 4
_RETRY_PAUSE_MS = 1_000
"""How long what time has brought is left alone after its record could not be written."""


def _transactional_id(_coordinator: TransactionCoordinator, request: AddOffsetsToTxnRequest | EndTxnRequest) -> str:
    return _not_empty(request.transactional_id)


def _id_of_partitions(_coordinator: TransactionCoordinator, request: AddPartitionsToTxnRequest) -> str:
    return _not_empty(request.v3_and_below_transactional_id)


def _id_of_new_producer(coordinator: TransactionCoordinator, request: InitProducerIdRequest) -> str:
    transactional_id = _not_empty(request.transactional_id or "")
    if not 0 < request.transaction_timeout_ms <= coordinator.config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return transactional_id


def _not_empty(transactional_id: str) -> str:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "empty transactional id")
    return transactional_id


class TransactionCoordinator(CoordinatorRuntime[TransactionShard]):
    """Transactional ids, by partition of `__transaction_state`.

    `new_producer_id()` gives one that was never given before and may raise KafkaError; `offsets_partition_for(group_id)`
    is the partition of the offsets topic that holds a group; `transaction_version()` the level of that feature.
    """

    def __init__(
        self,
        config: TransactionConfig,
        *,
        topics: TopicCatalog,
        new_producer_id: Callable[[], int],
        offsets_partition_for: Callable[[str], int],
        coordinator_epoch_of: Callable[[int], int] = lambda partition: 0,
        transaction_version: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions)
        self.config = config
        self._topics = topics
        self._new_producer_id = new_producer_id
        self._offsets_partition_for = offsets_partition_for
        self._coordinator_epoch_of = coordinator_epoch_of
        self._transaction_version = transaction_version

    # APIs; each is described by the function that answers it

    init_producer_id: Final = in_one_shard(_id_of_new_producer, init_producer_id.init_producer_id)
    add_offsets_to_txn: Final = in_one_shard(_transactional_id, add_offsets_to_txn)
    end_txn: Final = in_one_shard(_transactional_id, end_txn.end_txn)
    describe_transactions: Final = in_many_shards(describe_transactions.describe_transactions)
    _add_partitions: Final = in_one_shard(_id_of_partitions, add_partitions_to_txn)

    def _add_batches(self, request: AddPartitionsToTxnRequest, context: RequestContext, ticket: Ticket) -> Step:
        step = self.begin()
        add_batches_to_txn(lambda key: self.find(key, context, step), self._topics, request, context, ticket, step)
        return step

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, ticket: Ticket
    ) -> Step:
        """See `add_partitions.py`. From version 4 on it is for brokers among each other."""
        if context.api_version >= _BATCHED_SINCE:
            return self._add_batches(request, context, ticket)
        errors = partition_errors(self._topics, request)
        if not errors:
            return self._add_partitions(request, context, ticket)
        step = self.begin()
        step.reply(ticket, refused(request, errors))
        return step

    def list_transactions(
        self,
        request: ListTransactionsRequest,
        context: RequestContext,
        ticket: Ticket,
        matches: Callable[[str], bool] = lambda transactional_id: True,
    ) -> Step:
        """See `describe_transactions.py`. `matches` says which ids the pattern of the request is about."""

        def work(
            shards: list[TransactionShard],
            request: ListTransactionsRequest,
            context: RequestContext,
            ticket: Ticket,
            step: Step,
        ) -> None:
            describe_transactions.list_transactions(shards, matches, request, context, ticket, step)

        return in_all_shards(work)(self, request, context, ticket)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Whether a producer may write to a partition: NONE when its transaction is open and has the partition.

        INVALID_REQUEST (no id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (markers are being
        written), TRANSACTION_ABORTABLE (the partition was not added), or why the shard is not there.
        Kafka: TransactionCoordinator.handleVerifyPartitionsInTransaction.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        try:
            shard = self._existing(self.partition_for(transactional_id))
            if shard is None:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            shard.require_loaded()
            place = (topic, partition)
            return verified(shard, (transactional_id, producer_id, producer_epoch), [place])[place]
        except KafkaError as error:
            return error.code

    def transaction(self, transactional_id: str) -> Transaction | None:
        """What is known of an id, for inspection."""
        shard = self._shards.get(self.partition_for(transactional_id))
        return None if shard is None else shard.transactions.get(transactional_id)

    # Shards

    def find(self, key: str, context: RequestContext, step: Step) -> TransactionShard:
        """As that of all coordinators. Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, too."""
        shard = super().find(key, context, step)
        shard.require_loaded()
        return shard

    def _error_for(self, error: KafkaError, request: Request[Any], context: RequestContext) -> ErrorCode:
        if error.code is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_SINCE[type(request)]:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return error.code

    def _new_shard(self, partition: int, *, is_loading: bool) -> TransactionShard:
        return TransactionShard(
            partition,
            config=self.config,
            new_producer_id=self._new_producer_id,
            offsets_partition_for=self._offsets_partition_for,
            deadlines=self._deadlines,
            coordinator_epoch=self._coordinator_epoch_of(partition),
            transaction_version=self._transaction_version,
            is_loading=is_loading,
        )

    def _new_replay(self, shard: TransactionShard) -> TransactionReplay:
        return TransactionReplay(shard)

    def _loaded(self, shard: TransactionShard, now: Now, step: Step) -> None:
        """Where an outcome stands whose end was not recorded, markers are written again.

        Once that outcome is durable: a shard may be loaded again while its log still waits for power.
        """
        for key_type, count in sorted(shard.skipped.items()):
            event = TransactionRecordsSkipped(partition=shard.partition, now=now, key_type=key_type, count=count)
            step.events.append(event)
        shard.skipped.clear()
        for transaction in shard.transactions.values():
            shard.rearm(transaction, now)
            if transaction.state.is_decided:
                end_decided(shard, transaction, now, step)

    def _unload(self, shard: TransactionShard, error: ErrorCode, step: Step) -> None:
        """No request waits in a shard."""
        for transaction in shard.transactions.values():
            self._deadlines.cancel(shard.key_of(transaction))
        shard.transactions.clear()  # what is on its way finds that it is not wanted any more

    # Time

    def _shard_of_deadline(self, key: Key) -> TransactionShard | None:
        shard = self._shards.get(self.partition_for(key[1]))
        return None if shard is None or key[1] not in shard.transactions else shard

    def _fire(self, key: Key, shard: TransactionShard, now: Now, step: Step) -> None:
        """The one deadline of an id is due: it is decided and not all markers were written, open too long, or idle."""
        transaction = shard.transactions[key[1]]
        facts = transaction.facts

        def failed(_error: ErrorCode, _step: Step) -> None:
            if shard.holds(transaction, facts):  # the failure may have unloaded the shard
                shard.deadlines.set(shard.key_of(transaction), now.mono_ms + _RETRY_PAUSE_MS)

        if transaction.state.is_decided:
            write_markers(shard, transaction, now, step)
        elif transaction.state is TransactionState.ONGOING:
            abort(shard, transaction, TransactionCause.TIMED_OUT, now, step, aborted=lambda step: None, failed=failed)
        else:

            def written(_base_offset: int, step: Step) -> None:
                shard.forget(transaction, now, step)

            shard.append(step, transaction.transactional_id, None, now, written=written, failed=failed)
