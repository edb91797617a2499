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

    def attempt(waited_ms: int, work: Callable[[Outcome], Step]) -> Step:
        def once_tried(outcome: Outcome, then: Callable[[Outcome], Step]) -> Step:
            if waited_ms >= limit_ms or ErrorCode.CONCURRENT_TRANSACTIONS not in outcome.values():
                return then(outcome)
            cluster.timers.after(pause_ms, lambda: try_again(waited_ms + pause_ms), name="transaction")
            return Step()

        now = Now(context.now.mono_ms + waited_ms, context.now.wall_ms + waited_ms)
        return after_adding(
            cluster,
            transactional_id,
            producer,
            places,
            RequestContext(context.api_version, context.client_id, context.client_host, now, context.real_ms),
            lambda outcome: once_tried(outcome, work),
            lambda outcome: once_tried(outcome, later),
        )

    def later(outcome: Outcome) -> Step:
        work_later(outcome)
        return Step()

    def try_again(waited_ms: int) -> None:
        try:
            attempt(waited_ms, later)
        except Exception as error:
            cluster.defect(error, None)
            work_later(dict.fromkeys(places, ErrorCode.UNKNOWN_SERVER_ERROR))

    return attempt(0, work)


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
