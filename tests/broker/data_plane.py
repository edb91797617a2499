"""Builders of batches and of Produce, Fetch and ListOffsets requests, and readers of their answers."""

from __future__ import annotations

import struct
from typing import Any, overload

from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kshim_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kshim_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kshim_protocol.records.batch import build_batch, iter_batches
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.record import Record, iter_records
from kshim_protocol.schema import ZERO_UUID
from tests.broker.harness import START_WALL_MS, Client


def a_batch(*values: bytes, key: bytes | None = b"k", timestamp_ms: int = START_WALL_MS, **options: Any) -> bytes:
    """A batch with these values (default: one, b"v"), a millisecond apart from `timestamp_ms` on."""
    return build_batch(
        [Record(key, value, timestamp_ms=timestamp_ms + i) for i, value in enumerate(values or (b"v",))], **options
    )


def altered(batch: bytes, layout: str, at: int, value: int, *, with_crc: bool = True) -> bytes:
    """The batch with one number of its header replaced, and the CRC made right again unless told."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    if with_crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def produce_of(
    topic: str | bytes,
    *batches: bytes | None,
    acks: int = 1,
    first_partition: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Batches for the partitions from `first_partition` on of one topic, named or (bytes) by its id."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partition_data=tuple(
                    PartitionProduceData(index=first_partition + i, records=batch) for i, batch in enumerate(batches)
                ),
            ),
        ),
    )


def produce(
    client: Client, topic: str, batch: bytes | None, version: int = 12, **options: Any
) -> PartitionProduceResponse:
    """Produce one batch and return the partition's answer."""
    return only_partition(client.ask(produce_of(topic, batch, **options), version))


def fetch_of(
    *places: tuple[str | bytes, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition_max_bytes: int = 2**20,
    partition: dict[str, Any] | None = None,
    **options: Any,
) -> FetchRequest:
    """A full Fetch without session of (topic or topic id, partition, offset); `partition` holds further rows of each."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=tuple(
            FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=(
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        **(partition or {}),
                    ),
                ),
            )
            for topic, index, offset in places
        ),
        **options,
    )


@overload
def only_partition(response: ProduceResponse) -> PartitionProduceResponse: ...
@overload
def only_partition(response: FetchResponse) -> PartitionData: ...
def only_partition(response: ProduceResponse | FetchResponse) -> PartitionProduceResponse | PartitionData:
    """The answer for the only partition of a response."""
    if isinstance(response, ProduceResponse):
        ((produced,),) = (topic.partition_responses for topic in response.responses)
        return produced
    ((fetched,),) = (topic.partitions for topic in response.responses)
    return fetched


def values_in(data: bytes | None) -> list[bytes | None]:
    """The values of all records in the batches of a Fetch answer."""
    assert data is not None
    return [record.value for batch in iter_batches(data) for record in iter_records(batch)]


def list_offsets(
    client: Client,
    topic: str,
    timestamp: int,
    *,
    version: int = 11,
    partition: int = 0,
    isolation_level: int = 0,
    leader_epoch: int = -1,
) -> ListOffsetsPartitionResponse:
    """Ask for one partition and return its answer."""
    response = client.ask(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=(
                ListOffsetsTopic(
                    name=topic,
                    partitions=(
                        ListOffsetsPartition(
                            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
                        ),
                    ),
                ),
            ),
        ),
        version,
    )
    (answered,) = response.topics
    (answer,) = answered.partitions
    return answer
