"""Adding partitions to a transaction on behalf of a client that writes to them (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster


_VERSION = 5
Place = tuple[str, int]
"""Topic and partition."""
Outcome = Mapping[Place, ErrorCode]


class _Added(Ticket):
    """A request of the broker itself, which waits for its answer as one of a client does."""

    __slots__ = ("_places", "done")

    def __init__(self, places: Iterable[Place], done: Callable[[Outcome], object]) -> None:
        self._places = places
        self.done: Callable[[Outcome], object] = done

    def complete(self, response: AddPartitionsToTxnResponse) -> None:
        """The record is as durable as answers wait for."""
        self.done(
            {
                (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
                for result in response.results_by_transaction
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
        )

    def refuse(self, error: ErrorCode) -> None:
        """The record was lost."""
        self.done(dict.fromkeys(self._places, error))


def after_adding_patiently(
    cluster: Cluster,
    transactional_id: str,
    producer: tuple[int, int],
    places: Iterable[Place],
    context: RequestContext,
    work: Callable[[Outcome], Step],
    work_later: Callable[[Outcome], None],
) -> Step:
    """`after_adding`, tried again for a while as long as the transaction before has not ended (CONCURRENT_TRANSACTIONS).

    For how long and how often is configured by `add.partitions.to.txn.retry.backoff.max.ms` and `...backoff.ms`.
    """
    places = tuple(places)
    pause_ms = cluster.config.add_partitions_to_txn_retry_backoff_ms
    limit_ms = cluster.config.add_partitions_to_txn_retry_backoff_max_ms

    def is_to_wait(outcome: Outcome, waited_ms: int) -> bool:
        return waited_ms < limit_ms and ErrorCode.CONCURRENT_TRANSACTIONS in outcome.values()

    def tried(outcome: Outcome) -> Step:
        if not is_to_wait(outcome, 0):
            return work(outcome)
        wait(0)
        return Step()

    def tried_later(outcome: Outcome, waited_ms: int) -> Step:
        if is_to_wait(outcome, waited_ms):
            wait(waited_ms)
        else:
            work_later(outcome)
        return Step()

    def wait(waited_ms: int) -> None:
        cluster.timers.after(pause_ms, lambda: try_again(waited_ms + pause_ms), name="transaction")

    def try_again(waited_ms: int) -> None:
        now = Now(context.now.mono_ms + waited_ms, context.now.wall_ms + waited_ms)
        then = RequestContext(context.api_version, context.client_id, context.client_host, now, context.real_ms)
        try:
            after_adding(
                cluster,
                transactional_id,
                producer,
                places,
                then,
                lambda outcome: tried_later(outcome, waited_ms),
                lambda outcome: tried_later(outcome, waited_ms),
            )
        except Exception as error:
            cluster.defect(error, None)
            work_later(dict.fromkeys(places, ErrorCode.UNKNOWN_SERVER_ERROR))

    return after_adding(
        cluster,
        transactional_id,
        producer,
        places,
        context,
        tried,
        lambda outcome: tried_later(outcome, 0),
    )


def after_adding(
    cluster: Cluster,
    transactional_id: str,
    producer: tuple[int, int],
    places: Iterable[Place],
    context: RequestContext,
    work: Callable[[Outcome], Step],
    work_later: Callable[[Outcome], object],
) -> Step:
    """Add `places` to the transaction of `producer` (id and epoch), then do `work(outcome)`.

    Where the record has to become durable first, `work_later(outcome)` is called then; the Step is empty.
    Source: Kafka's AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend.
    """
    places = sorted(places)
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=tuple(AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items()),
    )
    outcomes: list[Outcome] = []
    request = AddPartitionsToTxnRequest(transactions=(transaction,))
    # Any node may coordinate the transaction: this is what brokers ask each other.
    own = RequestContext(_VERSION, context.client_id, context.client_host, context.now, context.real_ms)
    ticket = _Added(places, outcomes.append)
    cluster.apply(cluster.transactions.coordinator.add_partitions_to_txn(request, own, ticket))
    if outcomes:
        return work(outcomes[0])
    ticket.done = work_later
    return Step()
