"""DescribeLogDirs: how large the logs are, and how full the volume they are on (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition, Topic


@handles(DescribeLogDirsRequest)
def describe_log_dirs(node: Node, request: DescribeLogDirsRequest, context: RequestContext, ticket: Ticket) -> Step:
    """Describe the one directory, "memory" where there is none, with the partitions that this node leads.

    Partitions that are unknown, led by others or whose log cannot be read are left out, as Kafka leaves out what it does
    not have. All nodes share the directory: each reports its volume.
    """
    path, total_bytes, usable_bytes = node.cluster.storage.volume()
    topics: list[DescribeLogDirsTopic] = []
    for topic, indexes in _asked(node, request):
        partitions = tuple(_described(node, topic, indexes))
        if partitions:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    directory = DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=tuple(topics),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return answered(ticket, DescribeLogDirsResponse(results=(directory,)))


def _asked(node: Node, request: DescribeLogDirsRequest) -> Iterator[tuple[Topic, Iterable[int]]]:
    """Topics with partitions that are asked for; null: all of them."""
    if request.topics is None:
        for topic in node.cluster.topics.listed():
            yield topic, range(len(topic.partitions))
        return
    wanted: dict[str, dict[int, None]] = {}
    for row in request.topics:
        wanted.setdefault(row.topic, {}).update(dict.fromkeys(row.partitions))
    for name, indexes in wanted.items():
        found = node.cluster.topics.named(name)
        if found is not None:
            yield found, indexes


def _described(node: Node, topic: Topic, indexes: Iterable[int]) -> Iterator[DescribeLogDirsPartition]:
    for index in indexes:
        if not 0 <= index < len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if not node.leads(partition):
            continue
        try:
            size_bytes, lag = _size_and_lag(partition)
        except LogError as error:
            node.cluster.report(error, partition)
            continue
        yield DescribeLogDirsPartition(
            partition_index=index, partition_size=size_bytes, offset_lag=lag, is_future_key=False
        )


def _size_and_lag(partition: Partition) -> tuple[int, int]:
    """Bytes of the log, and the number of records that consumers cannot read yet. Raises LogError."""
    return partition.log.size_bytes, partition.log.end_offset - partition.high_watermark
