"""Raw requests of transactions, whose answers are told in words. No client library stands in between."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

_TIMEOUT_S = 30
_PARTITIONS = 3
_LATEST = -1
_STARTING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Talk:
    """One connection to a broker, a topic of three partitions, and the first producer id it was given."""

    def __init__(self, host: str, port: int, topic: str) -> None:
        self.client = Client(host, port, client_id="talk", timeout_s=_TIMEOUT_S)
        self.topic = topic
        self.first_producer_id: int | None = None
        new = CreatableTopic(name=topic, num_partitions=_PARTITIONS, replication_factor=1, assignments=(), configs=())
        (made,) = self.client.ask(CreateTopicsRequest(topics=(new,)), 5).topics
        assert made.error_code == ErrorCode.NONE, made

    def wait_for_leaders(self) -> None:
        """Wait until every partition of the topic has its leader."""
        deadline = time.monotonic() + _TIMEOUT_S
        while any(self.end(partition)[0] for partition in range(_PARTITIONS)):
            assert time.monotonic() < deadline, f"no leaders of {self.topic}"
            time.sleep(0.05)

    def end(self, partition: int, *, isolation_level: int = 0) -> tuple[int, int]:
        """ListOffsets: the error, and where a partition of the topic ends for readers of that level."""
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        topics = (ListOffsetsTopic(name=self.topic, partitions=(wanted,)),)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        ((found,),) = (topic.partitions for topic in self.client.ask(request, 7).topics)
        return found.error_code, found.offset

    def find(self, key: str, key_type: int) -> None:
        """Wait until there is a coordinator."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self.client.ask(FindCoordinatorRequest(key_type=key_type, key=key), 3).error_code in _STARTING:
            assert time.monotonic() < deadline, f"no coordinator for {key}"
            time.sleep(0.05)

    def wait_for_transactions(self, key: str) -> None:
        """Wait until every partition of `__transaction_state` has its coordinator: Kafka makes them one by one."""
        self.find(key, 1)
        request = DescribeTransactionsRequest(transactional_ids=tuple(f"readiness-{number}" for number in range(500)))
        deadline = time.monotonic() + _TIMEOUT_S
        while any(each.error_code in _STARTING for each in self.client.ask(request, 0).transaction_states):
            assert time.monotonic() < deadline, "not all coordinators of transactions are there"
            time.sleep(0.05)

    def init(
        self,
        transactional_id: str | None,
        known: tuple[int, int] = (-1, -1),
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> tuple[ErrorCode, int, int]:
        """InitProducerId: error, producer id, epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=known[0],
            producer_epoch=known[1],
        )
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            reply = self.client.ask(request, version)
            if reply.error_code not in _STARTING:
                return ErrorCode(reply.error_code), reply.producer_id, reply.producer_epoch
            assert time.monotonic() < deadline, reply
            time.sleep(0.05)

    def inited(self, transactional_id: str, known: tuple[int, int] = (-1, -1), **options: int) -> str:
        """The same in words; producer ids count from the first."""
        error, producer_id, epoch = self.init(transactional_id, known, **options)
        if error is not ErrorCode.NONE:
            return error.name
        if self.first_producer_id is None:
            self.first_producer_id = producer_id
        return f"NONE producer={producer_id - self.first_producer_id} epoch={epoch}"

    def described(self, transactional_id: str) -> TransactionState:
        """DescribeTransactions of one id."""
        request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        state: TransactionState = self.client.ask(request, 0).transaction_states[0]
        return state

    def state(self, transactional_id: str) -> str:
        """The same in words."""
        found = self.described(transactional_id)
        if found.error_code:
            return ErrorCode(found.error_code).name
        # Where a group lives follows from its name, which is another one in each run.
        topics = sorted((topic.topic, len(topic.partitions)) for topic in found.topics)
        has_start = found.transaction_start_time_ms > 0
        return (
            f"{found.transaction_state} epoch={found.producer_epoch} timeout={found.transaction_timeout_ms} "
            f"started={has_start} partitions={topics}"
        )

    def settled(self, transactional_id: str, *, not_in: Iterable[str] = ("PrepareCommit", "PrepareAbort")) -> str:
        """`state` once the id is in none of these."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self.described(transactional_id).transaction_state in not_in:
            assert time.monotonic() < deadline, self.state(transactional_id)
            time.sleep(0.05)
        return self.state(transactional_id)

    def listed(self, version: int = 1, **filters: Any) -> str:
        """ListTransactions in words."""
        given = {"state_filters": (), "producer_id_filters": (), **filters}
        reply = self.client.ask(ListTransactionsRequest(**given), version)
        rows = sorted(f"{row.transactional_id}:{row.transaction_state}" for row in reply.transaction_states)
        return f"{ErrorCode(reply.error_code).name} unknown={reply.unknown_state_filters} {rows}"

    def offsets(self, group_id: str, *, require_stable: bool = True) -> str:
        """OffsetFetch of all three partitions in words."""
        topics = (OffsetFetchRequestTopic(name=self.topic, partition_indexes=(0, 1, 2)),)
        reply = self.client.ask(OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable), 7)
        return " ".join(
            f"{partition.committed_offset}:{ErrorCode(partition.error_code).name}"
            for partition in reply.topics[0].partitions
        )


class Producer:
    """What a producer with this id and epoch is answered, in words."""

    def __init__(self, talk: Talk, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        self.talk = talk
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def but(self, *, producer_id: int = 0, epoch: int = 0, transactional_id: str | None = None) -> Producer:
        """Another one, whose id and epoch differ by so much."""
        name = self.transactional_id if transactional_id is None else transactional_id
        return Producer(self.talk, name, self.producer_id + producer_id, self.producer_epoch + epoch)

    @property
    def key(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    def add(self, *partitions: tuple[str, int] | int, version: int = 3) -> str:
        """AddPartitionsToTxn; a number is a partition of the talk's topic."""
        topics: dict[str, list[int]] = {}
        for place in partitions:
            topic, partition = (self.talk.topic, place) if isinstance(place, int) else place
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
            ),
        )
        reply = self.talk.client.ask(request, version)
        return _in_words(
            (topic.name, result.partition_index, result.partition_error_code)
            for topic in reply.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        )

    def add_group(self, group_id: str, version: int = 3) -> str:
        """AddOffsetsToTxn."""
        return self._error(AddOffsetsToTxnRequest(**self._named(), group_id=group_id), version)

    def end(self, *, committed: bool, version: int = 4) -> str:
        """EndTxn."""
        return self._error(EndTxnRequest(**self._named(), committed=committed), version)

    def verify(self, *partitions: tuple[str, int] | int, version: int = 5, verify_only: bool = True) -> str:
        """AddPartitionsToTxn between brokers: whether the transaction has them, or have them added."""
        places = [(self.talk.topic, place) if isinstance(place, int) else place for place in partitions]
        topics = {topic: [index for name, index in places if name == topic] for topic, _ in places}
        batch = AddPartitionsToTxnTransaction(
            **self._named(),
            verify_only=verify_only,
            topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
            ),
        )
        (found,) = self.talk.client.ask(
            AddPartitionsToTxnRequest(transactions=(batch,)), version
        ).results_by_transaction
        return _in_words(
            (topic.name, result.partition_index, result.partition_error_code)
            for topic in found.topic_results
            for result in topic.results_by_partition
        )

    def write(self, partition: int, sequence: int = 0, *, version: int = 12) -> str:
        """Produce of one record to a partition of the talk's topic: the error."""
        batch = build_batch(
            [Record(None, b"v", timestamp_ms=round(time.time() * 1000))],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(
                TopicProduceData(
                    name=self.talk.topic, partition_data=(PartitionProduceData(index=partition, records=batch),)
                ),
            ),
        )
        (answer,) = self.talk.client.ask(request, version).responses[0].partition_responses
        return ErrorCode(answer.error_code).name

    def end_and_bump(self, *, committed: bool) -> str:
        """EndTxn v5: the error, and by how much producer id and epoch rise."""
        reply = self.talk.client.ask(EndTxnRequest(**self._named(), committed=committed), 5)
        if reply.error_code:
            assert (reply.producer_id, reply.producer_epoch) == (-1, -1)
            return ErrorCode(reply.error_code).name
        rise = (reply.producer_id - self.producer_id, reply.producer_epoch - self.producer_epoch)
        return f"NONE producer+{rise[0]} epoch+{rise[1]}"

    def commit(self, group_id: str, *offsets: tuple[str, int, int], version: int = 4, **options: Any) -> str:
        """TxnOffsetCommit of (topic, partition, offset); an empty topic is the talk's. `metadata` is for all of them."""
        metadata = options.pop("metadata", "")
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic, index, offset in offsets:
            topics.setdefault(topic or self.talk.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = TxnOffsetCommitRequest(
            **self._named(),
            group_id=group_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
            **options,
        )
        reply = self.talk.client.ask(request, version)
        return _in_words(
            (topic.name, result.partition_index, result.error_code)
            for topic in reply.topics
            for result in topic.partitions
        )

    def _error(self, request: Any, version: int) -> str:
        return ErrorCode(self.talk.client.ask(request, version).error_code).name

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }


def _in_words(results: Iterable[tuple[str, int, int]]) -> str:
    """In the order of the names: Kafka's is that of a hash map."""
    return " ".join(f"{topic}-{index}:{ErrorCode(code).name}" for topic, index, code in sorted(results))
