"""Writing records to a topic, and reading those it has, without a client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kshim.broker.handlers.records.produce import produce as handle_produce
from kshim.coordinator.step import Now, RequestContext
from kshim.harness.answer import Answer
from kshim.harness.record import Record
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records import record as wire
from kshim_protocol.records.batch import build_batch, iter_batches, parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.record import iter_records

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.broker.node import Node
    from kshim.partitions.partition import Partition, Topic

_VERSION: Final = 9
_BATCH_RECORDS: Final = 1_000
_READ_BYTES: Final = 1 << 20


def produce(cluster: Cluster, topic_name: str, records: Sequence[Record], now: Now) -> list[Record]:
    """Append records as a producer with acks=all does, and return them with their partitions and offsets.

    Raises LookupError for a topic or partition there is not, or without a leader; KafkaError as Produce answers; partitions before
    the one that failed then have their records.
    """
    # A recording has these times, too: it notes the operation a moment after `now`.
    records = [
        record._replace(timestamp_ms=now.wall_ms) if record.timestamp_ms is None else record for record in records
    ]
    arguments = {"topic": topic_name, "records": records}
    written: list[Record] = cluster.operation("produce", arguments, lambda: _produce(cluster, topic_name, records, now))
    return written


def _produce(cluster: Cluster, topic_name: str, records: Sequence[Record], now: Now) -> list[Record]:
    topic = _topic(cluster, topic_name)
    placed: dict[int, list[tuple[int, Record]]] = {}
    turn = sum(partition.log.end_offset for partition in topic.partitions)
    for position, record in enumerate(records):
        index = place_of(record, len(topic.partitions), turn + position)
        _partition(topic, index)
        placed.setdefault(index, []).append((position, record))
    written: list[Record] = list(records)
    for index, mine in placed.items():
        for begin in range(0, len(mine), _BATCH_RECORDS):
            chunk = mine[begin : begin + _BATCH_RECORDS]
            offset = _append(cluster, topic, index, [record for _, record in chunk], now)
            for number, (position, record) in enumerate(chunk):
                written[position] = record._replace(partition=index, offset=offset + number)
    return written


def place_of(record: Record, partition_count: int, turn: int) -> int:
    """The partition of a record: its own, or by its key as Kafka's default partitioner has it, or the next in turn."""
    key = _bytes("key", record.key)
    if record.partition is not None:
        return record.partition
    return (turn if key is None else _murmur2(key) & 0x7FFFFFFF) % partition_count


def records_of(
    cluster: Cluster, topic_name: str, partition: int | None = None, *, isolation: str = "read_committed"
) -> list[Record]:
    """The records a consumer could read from the start, of one partition or of all, by partition and offset.

    With `read_committed`, those of transactions that were aborted, or are still open, are left out. Raises LookupError.
    """
    check_isolation(isolation)
    topic = _topic(cluster, topic_name)
    chosen = topic.partitions if partition is None else [_partition(topic, partition)]
    return [record for each in chosen for record in _read(each, isolation)]


def check_isolation(isolation: str) -> None:
    """Raises ValueError."""
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ValueError(f"isolation must be read_committed or read_uncommitted, not {isolation!r}")


class Page(NamedTuple):
    """Some records of one partition. `next_offset` is where the next page begins, `end_offset` where there are no more."""

    records: list[Record]
    next_offset: int
    end_offset: int


def record_page(
    cluster: Cluster,
    topic_name: str,
    partition: int,
    offset: int,
    limit: int,
    *,
    isolation: str = "read_committed",
) -> Page:
    """Up to `limit` records of a partition from `offset` on, or from the start of its log; about 1 MiB at most.

    As with `records_of`, but what a page costs does not depend on how much the partition holds. Raises LookupError, LogError;
    KafkaError while the partition is loading.
    """
    found = _partition(_topic(cluster, topic_name), partition)
    is_committed_only = isolation == "read_committed"
    end = found.last_stable_offset if is_committed_only else found.high_watermark
    at = max(offset, found.log.start_offset)
    if at >= end:
        return Page([], at, end)
    data = found.read(at, end, _READ_BYTES, at_least_one_batch=True)
    aborted = []
    if is_committed_only and found.producers is not None:
        aborted = list(found.producers.transactions.aborted_between(at, end))
    records: list[Record] = []
    for batch in iter_batches(data):
        header = parse_batch_header(batch)
        is_hidden = header.is_control or (
            header.is_transactional
            and any(
                each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
                for each in aborted
            )
        )
        if not is_hidden:
            for each in iter_records(batch):
                if each.offset < at:
                    continue
                if len(records) >= limit or each.offset >= end:
                    return Page(records, each.offset, end)
                records.append(Record(each.value, each.key, each.headers, partition, each.offset, each.timestamp_ms))
        at = header.last_offset + 1
    return Page(records, at, end)


def _topic(cluster: Cluster, name: str) -> Topic:
    topic = cluster.topics.named(name)
    if topic is None:
        raise LookupError(
            f"there is no topic {name}: create it with create_topic, or with topics={{{name!r}: 1}} at the start"
        )
    return topic


def _partition(topic: Topic, index: int) -> Partition:
    if not 0 <= index < len(topic.partitions):
        raise LookupError(f"topic {topic.name} has the partitions 0 to {len(topic.partitions) - 1}, and no {index}")
    return topic.partitions[index]


def _append(cluster: Cluster, topic: Topic, index: int, records: Iterable[Record], now: Now) -> int:
    """Have the leader of a partition handle a Produce request; returns the first offset."""
    batch = build_batch([wire_record(record, now.wall_ms) for record in records])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=0,
        topic_data=(
            TopicProduceData(name=topic.name, partition_data=(PartitionProduceData(index=index, records=batch),)),
        ),
    )
    leader_id = topic.partitions[index].leader.leader_id
    if leader_id not in cluster.leadership.live_ids:
        raise LookupError(f"partition {topic.name}-{index} has no leader: all brokers are stopped")
    node = cast("Node", cluster.known_node(leader_id))
    answer = Answer()
    context = RequestContext(_VERSION, "kshim", "/127.0.0.1", now)
    cluster.apply(handle_produce(node, request, context, cast("Any", answer)))
    response = answer.result().responses[0].partition_responses[0]
    if response.error_code:
        reasons = [error.batch_index_error_message for error in response.record_errors]
        raise KafkaError(
            ErrorCode(response.error_code), "; ".join(filter(None, [response.error_message, *reasons])) or None
        )
    base_offset: int = response.base_offset
    return base_offset


def wire_record(record: Record, now_ms: int) -> wire.Record:
    """A record as it is written, with this time (Unix) unless it has its own. Raises TypeError."""
    headers = record.headers.items() if isinstance(record.headers, Mapping) else record.headers
    return wire.Record(
        _bytes("key", record.key),
        _bytes("value", record.value),
        tuple((name, _bytes(f"header {name}", value)) for name, value in headers),
        now_ms if record.timestamp_ms is None else record.timestamp_ms,
    )


def _bytes(what: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a record's {what} must be bytes, a string or None, not {value!r}")


def _read(partition: Partition, isolation: str) -> Iterator[Record]:
    start = partition.log.start_offset
    return visible_records(_batches(partition, start), partition.index, start, isolation)


def _batches(partition: Partition, at: int) -> Iterator[bytes]:
    end = partition.high_watermark
    while at < end:
        data = partition.read(at, end, _READ_BYTES, at_least_one_batch=True)
        if not data:
            return
        for batch in iter_batches(data):
            at = parse_batch_header(batch).last_offset + 1
            yield batch


def visible_records(batches: Iterable[bytes], partition: int, start: int, isolation: str) -> Iterator[Record]:
    """The records that consumers see of all batches of a partition, from the offset `start` on."""
    found: list[list[Record]] = []  # by batch; emptied where the transaction is not committed
    pending: dict[int, list[list[Record]]] = {}  # of open transactions, by producer id
    for batch in batches:
        header = parse_batch_header(batch)
        if header.is_control:
            marker = parse_control_record(next(iter_records(batch)))
            ended = pending.pop(header.producer_id, [])
            if marker is not None and marker.control_type is ControlType.ABORT:
                for aborted in ended:
                    aborted.clear()
            continue
        records = [
            Record(each.value, each.key, each.headers, partition, each.offset, each.timestamp_ms)
            for each in iter_records(batch)
            if each.offset >= start
        ]
        found.append(records)
        if header.is_transactional and isolation == "read_committed":
            pending.setdefault(header.producer_id, []).append(records)
    for still_open in pending.values():
        for records in still_open:
            records.clear()
    for records in found:
        yield from records


def _murmur2(data: bytes) -> int:
    """The hash of Kafka's default partitioner (Utils.murmur2), without its sign."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        value = (value * m & mask) ^ k
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * m & mask
    value = (value ^ (value >> 13)) * m & mask
    return value ^ (value >> 15)
