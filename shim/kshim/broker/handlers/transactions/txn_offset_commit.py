"""TxnOffsetCommit: offsets that count once a transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import PendingReply, handles
from kshim.broker.transaction_partitions import Outcome, after_adding
from kshim.coordinator.groups.offsets.requested_topics import any_exists
from kshim.coordinator.groups.offsets.txn_offset_commit import topics_of
from kshim.coordinator.step import OFFSETS_TOPIC, RequestContext, Step
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


_GROUP_ADDED_FROM = 5


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(
    node: Node, request: TxnOffsetCommitRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """See `GroupCoordinator.txn_offset_commit`. Another coordinator knows whether the transaction has the group.

    From version 5 on it is added (KIP-890), unless nothing of the request exists.
    """
    cluster = node.cluster
    groups = cluster.groups.coordinator

    def verify(partition: int) -> ErrorCode:
        return cluster.transactions.coordinator.verify(
            request.transactional_id, request.producer_id, request.producer_epoch, OFFSETS_TOPIC, partition
        )

    exists = any_exists(topics_of(cluster.topics, request, context.api_version))
    index = groups.partition_for(request.group_id)
    leads = context.leads_shard is None or context.leads_shard(OFFSETS_TOPIC, index)
    if context.api_version < _GROUP_ADDED_FROM or not (request.group_id and exists and leads):
        return groups.txn_offset_commit(request, context, ticket, verify)

    def commit(added: Outcome) -> Step:
        return groups.txn_offset_commit(request, context, ticket, lambda partition: added[OFFSETS_TOPIC, partition])

    def commit_later(added: Outcome) -> None:
        try:
            cluster.apply(commit(added))
        except Exception as error:
            cluster.defect(error, request)
            if not ticket.is_answered:
                ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    producer = (request.producer_id, request.producer_epoch)
    try:
        cluster.groups.partition(index)  # makes the offsets topic for its first use
    except LogError as error:
        cluster.report(error, request)
        return groups.txn_offset_commit(request, context, ticket, lambda _: ErrorCode.COORDINATOR_NOT_AVAILABLE)
    place = (OFFSETS_TOPIC, index)
    return after_adding(cluster, request.transactional_id, producer, [place], context, commit, commit_later)
