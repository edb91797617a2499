"""What members say of records, in ShareFetch and in ShareAcknowledge.

Source: Kafka's KafkaApis.getAcknowledgeBatchesFromShareFetchRequest and SharePartitionManager.acknowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kshim.coordinator.hash_order import scala_map_order, topic_id_partition_hash
from kshim.coordinator.step import RequestContext
from kshim.share_partitions.share_partition import RENEW, Acknowledged
from kshim.share_partitions.share_sessions import Place
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition

_LAST_TYPE = {1: 3}
_MOST_MEMBER_ID_CHARACTERS = 36


class AcknowledgementBatch(Protocol):
    """A range of either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class Result(NamedTuple):
    """What became of the acknowledgements of one partition."""

    error: ErrorCode
    message: str | None = None


def require_member(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Group and member of a request. Raises KafkaError: INVALID_REQUEST."""
    if group_id is None or member_id is None or not 0 < len(member_id) <= _MOST_MEMBER_ID_CHARACTERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def require_partition(node: Node, place: Place, context: RequestContext) -> Partition:
    """Raises KafkaError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
    topic_id, index = place
    topic = node.cluster.topics.with_id(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if context.may_read is not None and not context.may_read(topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[index]
    if not node.leads(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def acknowledge_all(
    node: Node,
    group_id: str,
    member_id: str,
    topics: Iterable[Any],
    context: RequestContext,
    *,
    is_renewal: bool,
    then: Callable[[dict[Place, Result]], None],
) -> Sequence[Callable[[], None]]:
    """Take what a request says of records. `then` is called with the results, by partition, once all is written.

    Returns what writes it: until that is called nothing else happens to these records. A partition of which nothing is said
    is answered if the broker takes what is said of another.

    Raises KafkaError: UNKNOWN_SERVER_ERROR, where an exception ends the whole request in Kafka; what came before it holds.
    """
    said = {
        (topic.topic_id, one.partition_index): one.acknowledgement_batches
        for topic in topics
        for one in topic.partitions
    }
    results: dict[Place, Result] = {}
    taken: dict[Place, list[Acknowledged]] = {}
    for place, batches in said.items():
        try:
            taken[place] = _checked(node, place, batches, context, is_renewal=is_renewal)
        except KafkaError as error:
            results[place] = Result(error.code, error.message)
    if any(taken.values()):  # else partitions of which nothing is said are not answered
        results |= {place: Result(ErrorCode.NONE) for place, batches in taken.items() if not batches}
    told = _in_turn(node, [place for place, batches in taken.items() if batches])
    waiting = set(told)

    def is_known(place: Place, result: Result) -> None:
        results[place] = result
        waiting.discard(place)
        if not waiting:
            then({place: results[place] for place in said if place in results})

    if not waiting:
        then(results)
    writes = []
    for place in told:
        try:
            writes.append(_acknowledge(node, group_id, member_id, place, taken[place], context, is_known))
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                for write in writes:
                    write()
                raise
            is_known(place, Result(error.code, error.message))
    return writes


def _in_turn(node: Node, places: Sequence[Place]) -> Sequence[Place]:
    """As Kafka's broker goes through them: what is said of one may give records of another to a member that waits."""
    if len(places) < 2:
        return places
    names = {topic_id: topic.name for topic_id, _ in places if (topic := node.cluster.topics.with_id(topic_id))}
    return scala_map_order(places, lambda place: topic_id_partition_hash(place[0], names[place[0]], place[1]))


def _acknowledge(
    node: Node,
    group_id: str,
    member_id: str,
    place: Place,
    batches: Sequence[Acknowledged],
    context: RequestContext,
    is_known: Callable[[Place, Result], None],
) -> Callable[[], None]:
    delivery = node.cluster.share_partitions.existing(group_id, *place)
    if delivery is None or delivery.share is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return node.cluster.share_partitions.acknowledge(
        delivery, member_id, batches, context.now, lambda error: is_known(place, Result(error))
    )


def _checked(
    node: Node,
    place: Place,
    batches: Sequence[AcknowledgementBatch],
    context: RequestContext,
    *,
    is_renewal: bool,
) -> list[Acknowledged]:
    """What is said of a partition that is here. Raises KafkaError."""
    if node.cluster.topics.with_id(place[0]) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    found = _in_order(batches, context.api_version, is_renewal=is_renewal)
    require_partition(node, place, context)
    return found


def _in_order(batches: Sequence[AcknowledgementBatch], api_version: int, *, is_renewal: bool) -> list[Acknowledged]:
    """In order, with one type or one for each record. A batch may begin with the last record of the one before, as in Kafka.

    Raises KafkaError: INVALID_REQUEST.
    """
    last_type = _LAST_TYPE.get(api_version, RENEW)
    previous_last = -1
    found = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        is_valid = (
            previous_last <= first <= last
            and len(types) in (1, last - first + 1)
            and all(0 <= type_ <= last_type for type_ in types)
            and (is_renewal or RENEW not in types)
        )
        if not is_valid:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        found.append(Acknowledged(first, last, types))
        previous_last = last
    return found
