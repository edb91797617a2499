"""Records and offsets of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from integration.security.questions.things import MISSING, TOPICS, Rows
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.describe_producers import DescribeProducersRequest
from kshim_protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def reading_and_writing(ids: Mapping[str, bytes]) -> Rows:
    both = [(topic, ids[topic]) for topic in TOPICS]

    def produce(transactional_id: str | None = None) -> ProduceRequest:
        # An empty batch is refused, but not by the authorizer.
        rows = tuple(
            TopicProduceData(name=name, topic_id=one, partition_data=(PartitionProduceData(index=0, records=b""),))
            for name, one in both
        )
        return ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1_000, topic_data=rows)

    yield "Produce", produce(), 9
    yield "Produce", produce(), 13
    yield (
        "Fetch",
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=tuple(
                FetchTopic(
                    topic=name,
                    topic_id=one,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),),
                )
                for name, one in both
            ),
        ),
        12,
    )
    yield (
        "Fetch",
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=tuple(
                FetchTopic(
                    topic_id=one,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),),
                )
                for one in (*(one for _, one in both), b"unknown-topic-id")
            ),
        ),
        17,
    )


def offsets(ids: Mapping[str, bytes]) -> Rows:
    names = (*TOPICS, MISSING)
    yield (
        "ListOffsets",
        ListOffsetsRequest(
            replica_id=-1,
            topics=tuple(
                ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
                for name in names
            ),
        ),
        7,
    )
    yield (
        "OffsetForLeaderEpoch",
        OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=tuple(
                OffsetForLeaderTopic(topic=name, partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),))
                for name in names
            ),
        ),
        4,
    )
    yield (
        "DeleteRecords",
        DeleteRecordsRequest(
            topics=tuple(
                DeleteRecordsTopic(name=name, partitions=(DeleteRecordsPartition(partition_index=0, offset=99),))
                for name in names
            ),
            timeout_ms=1_000,
        ),
        2,
    )
    yield (
        "DescribeProducers",
        DescribeProducersRequest(topics=tuple(ProducersTopic(name=name, partition_indexes=(0,)) for name in names)),
        0,
    )
