"""DescribeShareGroupOffsets: the group coordinator answers, with the ends of partitions from their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.features import SHARE_VERSION
from kshim.broker.request import PendingReply, handles, needs_feature
from kshim.coordinator.step import RequestContext, Step
from kshim.storage.log import LogError
from kshim_protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest

if TYPE_CHECKING:
    from kshim.broker.node import Node


@needs_feature(SHARE_VERSION)
@handles(DescribeShareGroupOffsetsRequest)
def describe_share_group_offsets(
    node: Node, request: DescribeShareGroupOffsetsRequest, context: RequestContext, ticket: PendingReply
) -> Step:
    """Where share groups are, and how far behind."""

    def end_offset(topic: str, index: int) -> int | None:
        partition = node.cluster.topics.partition(topic, index)
        try:
            return None if partition is None else partition.high_watermark
        except LogError as failure:
            node.cluster.report(failure, request)
            return None

    return node.cluster.groups.coordinator.describe_share_group_offsets(request, context, ticket, end_offset)
