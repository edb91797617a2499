"""AlterReplicaLogDirs: there is one directory, in which everything is (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kshim.broker.request import answered, handles
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

if TYPE_CHECKING:
    from kshim.broker.node import Node

_LONGEST_FOLDER: Final = 255
_SUFFIX: Final = len(".") + 32 + len("-future")
"""Of the folder of a replica that is on its way: an id, and what it is."""


@handles(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(
    node: Node, request: AlterReplicaLogDirsRequest, context: RequestContext, ticket: Ticket
) -> Step:
    """Nothing moves: what shall be in the directory of this broker is there. Kafka: ReplicaManager.alterReplicaLogDirs.

    Errors of a partition: INVALID_TOPIC_EXCEPTION (its name is too long to be moved), LOG_DIR_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE (another node has it).
    """
    path, _, _ = node.cluster.storage.volume()
    errors = {
        (topic.name, index): _error(node, topic.name, index, is_here=one.path == path)
        for one in request.dirs
        for topic in one.topics
        for index in topic.partitions
    }
    return answered(ticket, AlterReplicaLogDirsResponse.of(errors))


def _error(node: Node, name: str, index: int, *, is_here: bool) -> ErrorCode:
    if len(f"{name}-{index}") + _SUFFIX > _LONGEST_FOLDER:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = node.cluster.topics.named(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if node.leads(topic.partitions[index]) else ErrorCode.REPLICA_NOT_AVAILABLE
