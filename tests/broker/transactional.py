"""A producer that speaks transactions to a node, one request at a time."""

from __future__ import annotations

from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.api_versions import ApiVersionsRequest
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
    """InitProducerId is asked at once. Every method raises AssertionError when the broker refuses.

    As the Java client does, it goes by the level of transaction.version: from 2 on it writes without adding anything,
    and goes on with the epoch that each EndTxn gives it.
    """

    def __init__(self, client: Client, transactional_id: str = "x", *, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.is_version_2 = transaction_version_of(client) >= 2
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        reply = client.ask(request, 5)
        assert reply.error_code == ErrorCode.NONE, ErrorCode(reply.error_code)
        self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        self._sequences: dict[tuple[str, int], int] = {}

    def write(self, topic: str, partition: int, value: bytes) -> None:
        """Produce one record to a partition, which is added before where the broker does not do that."""
        if not self.is_version_2:
            self._add(topic, partition)
        sequence = self._sequences.get((topic, partition), 0)
        batch = a_batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        version = 12 if self.is_version_2 else 11
        answer = produce(
            self.client, topic, batch, version, first_partition=partition, transactional_id=self.transactional_id
        )
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self._sequences[topic, partition] = sequence + 1

    def _add(self, topic: str, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(partition,)),),
        )
        (added,) = self.client.ask(request, 3).results_by_topic_v3_and_below
        assert [result.partition_error_code for result in added.results_by_partition] == [ErrorCode.NONE]

    def commit_offset(self, group_id: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 for a group, which is added before where the broker does not do that."""
        if not self.is_version_2:
            adding = AddOffsetsToTxnRequest(**self._named(), group_id=group_id)
            assert self.client.ask(adding, 3).error_code == ErrorCode.NONE
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            **self._named(),
            group_id=group_id,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        (answered,) = self.client.ask(request, 5 if self.is_version_2 else 3).topics
        assert [answer.error_code for answer in answered.partitions] == [ErrorCode.NONE]

    def end(self, *, committed: bool) -> ErrorCode:
        """EndTxn."""
        reply = self.client.ask(EndTxnRequest(**self._named(), committed=committed), 5 if self.is_version_2 else 4)
        if self.is_version_2 and reply.error_code == ErrorCode.NONE:
            self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
            self._sequences.clear()
        return ErrorCode(reply.error_code)

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }


def transaction_version_of(client: Client) -> int:
    """The level of transaction.version that ApiVersions reports."""
    reply = client.ask(ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4)
    levels = {feature.name: feature.max_version_level for feature in reply.finalized_features}
    return levels.get("transaction.version", 0)


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
