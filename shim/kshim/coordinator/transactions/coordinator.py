"""The transaction coordinator as the broker sees it: one method an API, time, loading and unloading of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.deadlines import Deadlines
from kshim.coordinator.partitioner import partition_for
from kshim.coordinator.step import OFFSETS_TOPIC, Now, RequestContext, Step, Ticket
from kshim.coordinator.transactions.add_partitions import add_partitions, partition_errors, response_of
from kshim.coordinator.transactions.config import TransactionConfig
from kshim.coordinator.transactions.describe_transactions import describe_transactions, list_transactions
from kshim.coordinator.transactions.end_txn import abort, end_txn, require_producer
from kshim.coordinator.transactions.events import TransactionCause, TransactionRecordsSkipped
from kshim.coordinator.transactions.init_producer_id import init_producer_id
from kshim.coordinator.transactions.markers import TransactionStep, end_decided, write_markers
from kshim.coordinator.transactions.replay import TransactionReplay
from kshim.coordinator.transactions.shard import TransactionShard
from kshim.coordinator.transactions.state import TransactionState
from kshim.coordinator.transactions.transaction import Transaction
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest

_FENCED_SINCE = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}
"""Version of each API that knows PRODUCER_FENCED; the ones before are told INVALID_PRODUCER_EPOCH (KIP-588)."""
_RETRY_PAUSE_MS = 1_000
"""How long what time has brought is left alone after its record could not be written."""


def _nothing(_partition: int) -> None:
    pass


class TransactionCoordinator:
    """All shards of `__transaction_state` and their timers.

    As for the group coordinator: every input is synchronous and returns a `Step`, which must be applied before the next
    input; an exception is a defect, after which `partition_at_work` names the shard to load again.
    `new_producer_id()` gives one that was never given before and may raise KafkaError; `offsets_partition_for(group_id)`
    tells the partition of the offsets topic that holds a group.

    A shard exists from its first use on and is then active at once, unless `begin_load` was called for it.
    `on_load_wanted(partition)` is called when somebody asks for one that is still loading.
    """

    def __init__(
        self,
        config: TransactionConfig,
        *,
        topics: TopicCatalog,
        new_producer_id: Callable[[], int],
        offsets_partition_for: Callable[[str], int],
        coordinator_epoch_of: Callable[[int], int] = lambda partition: 0,
    ) -> None:
        self.config = config
        self.partition_at_work: int | None = None
        self.on_load_wanted: Callable[[int], object] = _nothing
        self._topics = topics
        self._new_producer_id = new_producer_id
        self._offsets_partition_for = offsets_partition_for
        self._coordinator_epoch_of = coordinator_epoch_of
        self._deadlines = Deadlines()
        self._shards: dict[int, TransactionShard] = {}
        self._unloaded: dict[int, ErrorCode] = {}

    # Producers

    def init_producer_id(self, request: InitProducerIdRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `init_producer_id.py`. The request has a transactional id."""
        step = TransactionStep()
        transactional_id = request.transactional_id
        assert transactional_id is not None
        try:
            if not transactional_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "empty transactional id")
            if not 0 < request.transaction_timeout_ms <= self.config.transaction_max_timeout_ms:
                raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
            shard = self._shard(transactional_id, context, step)
            init_producer_id(shard, request, context, ticket, step, new_producer_id=self._new_producer_id)
        except KafkaError as error:
            code = _told(error.code, "InitProducerId", context)
            step.reply(ticket, request.error_response(code, context.api_version))
        return step

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, ticket: Ticket
    ) -> Step:
        """See `add_partitions.py`. Versions 0-3: those after are for brokers among each other."""
        step = TransactionStep()
        errors = partition_errors(self._topics, request)
        if errors:
            step.reply(ticket, response_of(request, ErrorCode.OPERATION_NOT_ATTEMPTED, errors))
            return step
        partitions = frozenset(
            (topic.name, partition) for topic in request.v3_and_below_topics for partition in topic.partitions
        )
        producer = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )

        def done(error: ErrorCode, step: Step) -> None:
            step.reply(ticket, response_of(request, _told(error, "AddPartitionsToTxn", context)))

        self._add(producer, partitions, context, step, done)
        return step

    def add_offsets_to_txn(self, request: AddOffsetsToTxnRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `add_partitions.py`: the partition is that of the group's offsets."""
        step = TransactionStep()
        partitions = frozenset({(OFFSETS_TOPIC, self._offsets_partition_for(request.group_id))})
        producer = (request.transactional_id, request.producer_id, request.producer_epoch)

        def done(error: ErrorCode, step: Step) -> None:
            step.reply(ticket, AddOffsetsToTxnResponse(error_code=_told(error, "AddOffsetsToTxn", context)))

        self._add(producer, partitions, context, step, done)
        return step

    def _add(
        self,
        producer: tuple[str, int, int],
        partitions: frozenset[tuple[str, int]],
        context: RequestContext,
        step: Step,
        done: Callable[[ErrorCode, Step], None],
    ) -> None:
        try:
            shard = self._named_shard(producer[0], context, step)
            add_partitions(shard, producer, partitions, context.now, step, done)
        except KafkaError as error:
            done(error.code, step)

    def end_txn(self, request: EndTxnRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `end_txn.py`."""
        step = TransactionStep()
        try:
            end_txn(self._named_shard(request.transactional_id, context, step), request, context, ticket, step)
        except KafkaError as error:
            step.reply(ticket, request.error_response(_told(error.code, "EndTxn", context), context.api_version))
        return step

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
            shard = self._found(self.shard_of(transactional_id))
            transaction = shard.require(transactional_id)
            require_producer(transaction, producer_id, producer_epoch)
        except KafkaError as error:
            return error.code
        if transaction.state.is_decided:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if (topic, partition) in transaction.facts.partitions else ErrorCode.TRANSACTION_ABORTABLE

    # Administration

    def describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext, ticket: Ticket
    ) -> Step:
        """See `describe_transactions.py`."""
        step = TransactionStep()
        partitions: set[int] = set()
        step.partitions = partitions

        def find(transactional_id: str) -> TransactionShard:
            shard = self._led(transactional_id, context)
            partitions.add(shard.partition)
            return shard

        step.reply(ticket, describe_transactions(find, request))
        return step

    def list_transactions(self, request: ListTransactionsRequest, context: RequestContext, ticket: Ticket) -> Step:
        """See `describe_transactions.py`. Of the shards that the node asked leads."""
        step = TransactionStep()
        leads = context.leads_transaction_shard
        indexes = sorted(self._shards if leads is None else filter(leads, self._shards))
        step.partitions = frozenset(indexes)
        try:
            step.reply(ticket, list_transactions((self._shards[index] for index in indexes), request, context.now))
        except KafkaError as error:
            step.reply(ticket, request.error_response(error.code, context.api_version))
        return step

    # Time

    def next_deadline(self) -> int | None:
        """When `advance` is next due, in monotonic ms: never too late, perhaps too early. None: nothing runs."""
        return self._deadlines.earliest()

    def advance(self, now: Now) -> Step:
        """Fire the first thing that is due. After applying it ask `next_deadline` again: it may still be in the past."""
        step = TransactionStep()
        self.partition_at_work = None
        key = self._deadlines.pop_due(now.mono_ms)
        if key is not None:
            shard = self._shards[self.shard_of(key[1])]
            self.partition_at_work = shard.partition
            step.partitions = shard.alone
            _fire(shard, shard.transactions[key[1]], now, step)
        return step

    # Shards

    def shard_of(self, transactional_id: str) -> int:
        """Partition of `__transaction_state` that holds an id."""
        return partition_for(transactional_id, self.config.transaction_state_log_num_partitions)

    def has_shard(self, partition: int) -> bool:
        """Whether a shard is there, loading ones included."""
        return partition in self._shards

    def transaction(self, transactional_id: str) -> Transaction | None:
        """What is known of an id, for inspection."""
        shard = self._shards.get(self.shard_of(transactional_id))
        return None if shard is None else shard.transactions.get(transactional_id)

    def begin_load(self, partition: int) -> None:
        """Refuse requests to this shard (COORDINATOR_LOAD_IN_PROGRESS) until `finish_load`. It must not be there."""
        assert partition not in self._shards, f"shard {partition} is there already"
        self._unloaded.pop(partition, None)
        self._make(partition, is_loading=True)

    def begin_replay(self, partition: int) -> TransactionReplay:
        """To be fed the log of a loading shard and then finished, before `finish_load`."""
        shard = self._shards[partition]
        assert shard.is_loading, f"shard {partition} is not loading"
        return TransactionReplay(shard)

    def replay(self, partition: int, runs: Iterable[bytes]) -> None:
        """The same at once. Raises ProtocolError."""
        replaying = self.begin_replay(partition)
        for run in runs:
            for _ in replaying.feed(run):
                pass
        for _ in replaying.finish():
            pass

    def finish_load(self, partition: int, now: Now) -> Step:
        """The shard has seen its whole log. Where an outcome stands whose end was not recorded, markers are written again.

        Once that outcome is durable: a shard may be loaded again while its log still waits for power.
        """
        step = TransactionStep()
        shard = self._shards[partition]
        assert shard.is_loading, f"shard {partition} is not loading"
        shard.is_loading = False
        step.partitions = shard.alone
        for key_type, count in sorted(shard.skipped.items()):
            step.events.append(TransactionRecordsSkipped(partition=partition, now=now, key_type=key_type, count=count))
        shard.skipped.clear()
        for transaction in shard.transactions.values():
            shard.rearm(transaction, now)
            if transaction.state.is_decided:
                end_decided(shard, transaction, now, step)
        return step

    def unload(self, partition: int, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Step:
        """Give a shard up: everybody who asks for it is told `error`, until `begin_load`. Nobody waits in a shard."""
        self._unloaded[partition] = error
        shard = self._shards.pop(partition, None)
        if shard is not None:
            for transaction in shard.transactions.values():
                self._deadlines.cancel(shard.key_of(transaction))
            shard.transactions.clear()  # what is on its way finds that it is not wanted any more
        return TransactionStep()

    def _named_shard(self, transactional_id: str, context: RequestContext, step: Step) -> TransactionShard:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "empty transactional id")
        return self._shard(transactional_id, context, step)

    def _shard(self, transactional_id: str, context: RequestContext, step: Step) -> TransactionShard:
        """The shard of an id, made on first use; the step is of this shard. Raises KafkaError as `_led` does."""
        shard = self._led(transactional_id, context)
        step.partitions = shard.alone
        return shard

    def _led(self, transactional_id: str, context: RequestContext) -> TransactionShard:
        """Raises KafkaError: NOT_COORDINATOR where another node leads it, and as `_found` does."""
        partition = self.shard_of(transactional_id)
        leads = context.leads_transaction_shard
        if leads is not None and not leads(partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._found(partition)

    def _found(self, partition: int) -> TransactionShard:
        """Raises KafkaError: what `unload` was told, COORDINATOR_LOAD_IN_PROGRESS."""
        if partition in self._unloaded:
            raise KafkaError(self._unloaded[partition])
        shard = self._shards.get(partition)
        if shard is None:
            shard = self._make(partition, is_loading=False)
        elif shard.is_loading:
            self.on_load_wanted(partition)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.partition_at_work = partition
        return shard

    def _make(self, partition: int, *, is_loading: bool) -> TransactionShard:
        shard = self._shards[partition] = TransactionShard(
            partition,
            config=self.config,
            topics=self._topics,
            deadlines=self._deadlines,
            coordinator_epoch=self._coordinator_epoch_of(partition),
            is_loading=is_loading,
        )
        return shard


def _told(error: ErrorCode, api: str, context: RequestContext) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _fire(shard: TransactionShard, transaction: Transaction, now: Now, step: TransactionStep) -> None:
    """The one deadline of a transaction is due: it is decided and not all markers could be written, open too long, or idle."""

    def failed(_error: ErrorCode, _step: Step) -> None:
        shard.deadlines.set(shard.key_of(transaction), now.mono_ms + _RETRY_PAUSE_MS)

    if transaction.state.is_decided:
        write_markers(shard, transaction, now, step)
    elif transaction.state is TransactionState.ONGOING:
        abort(shard, transaction, TransactionCause.TIMED_OUT, now, step, aborted=lambda step: None, failed=failed)
    else:

        def written(_base_offset: int, step: Step) -> None:
            shard.forget(transaction, now, step)

        shard.append(step, transaction.transactional_id, None, now, written=written, failed=failed)
