"""A producer that speaks transactions to a node, one request at a time."""

from __future__ import annotations

from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce
from tests.broker.harness import Client


class TransactionalProducer:
    """InitProducerId is asked at once. Every method raises AssertionError when the broker refuses."""

    def __init__(self, client: Client, transactional_id: str = "x", *, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.transactional_id = transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        reply = client.ask(request, 5)
        assert reply.error_code == ErrorCode.NONE, ErrorCode(reply.error_code)
        self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        self._sequences: dict[tuple[str, int], int] = {}

    def write(self, topic: str, partition: int, value: bytes) -> None:
        """Add the partition and produce one record to it."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(partition,)),),
        )
        (added,) = self.client.ask(request, 3).results_by_topic_v3_and_below
        assert [result.partition_error_code for result in added.results_by_partition] == [ErrorCode.NONE]
        sequence = self._sequences.get((topic, partition), 0)
        batch = a_batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        answer = produce(
            self.client, topic, batch, 11, first_partition=partition, transactional_id=self.transactional_id
        )
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self._sequences[topic, partition] = sequence + 1

    def commit_offset(self, group_id: str, topic: str, offset: int) -> None:
        """Add the group and commit an offset of partition 0."""
        adding = AddOffsetsToTxnRequest(**self._named(), group_id=group_id)
        assert self.client.ask(adding, 3).error_code == ErrorCode.NONE
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            **self._named(),
            group_id=group_id,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        (answered,) = self.client.ask(request, 3).topics
        assert [answer.error_code for answer in answered.partitions] == [ErrorCode.NONE]

    def end(self, *, committed: bool) -> ErrorCode:
        """EndTxn."""
        return ErrorCode(self.client.ask(EndTxnRequest(**self._named(), committed=committed), 4).error_code)

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }


def committed_values(client: Client, topic: str, partition: int) -> list[bytes | None]:
    """What a consumer of committed records sees of a partition, by the rules of KIP-98."""
    found = only_partition(client.ask(fetch_of((topic, partition, 0), isolation_level=1), 12))
    assert found.error_code == ErrorCode.NONE
    starts = {(aborted.first_offset, aborted.producer_id) for aborted in found.aborted_transactions or ()}
    aborted: set[int] = set()
    values: list[bytes | None] = []
    for batch in iter_batches(found.records or b""):
        header = parse_batch_header(batch)
        aborted |= {producer_id for offset, producer_id in starts if offset == header.base_offset}
        if header.is_control:
            aborted.discard(header.producer_id)
        elif header.producer_id not in aborted:
            values += [record.value for record in iter_records(batch)]
    return values


def committed_offset(client: Client, group_id: str, topic: str) -> tuple[int, ErrorCode]:
    """The stable offset of partition 0."""
    topics = (OffsetFetchRequestTopic(name=topic, partition_indexes=(0,)),)
    reply = client.ask(OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=True), 7)
    (partition,) = reply.topics[0].partitions
    return partition.committed_offset, ErrorCode(partition.error_code)
