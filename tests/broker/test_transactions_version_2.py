"""Clients of transaction.version 2 add nothing: what they write to becomes part of the transaction (KIP-890)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kshim_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.data_plane import a_batch, only_partition, produce, produce_of
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.broker.test_features import update
from tests.broker.transactional import TransactionalProducer, committed_offset, committed_values


def at_level(level: int, **options: Any) -> NodeUnderTest:
    return a_node(topics={"t": 2}, config={"kshim.transaction.version": str(level)}, **options)


class Producer:
    """Speaks as a client of transaction.version 2 does."""

    def __init__(self, client: Client, transactional_id: str = "x") -> None:
        self.client = client
        self.transactional_id = transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        reply = client.ask(request, 5)
        assert reply.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch

    def write(self, partition: int, value: bytes, *, version: int = 12, sequence: int = 0, epoch: int = 0) -> ErrorCode:
        """One batch; `epoch` is added to the producer's own."""
        batch = a_batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        answer = produce(
            self.client, "t", batch, version, first_partition=partition, transactional_id=self.transactional_id
        )
        return ErrorCode(answer.error_code)

    def commit_offset(self, offset: int, *, version: int = 5, epoch: int = 0, topic: str = "t") -> ErrorCode:
        """TxnOffsetCommit of group g, partition 0."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            group_id="g",
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        return ErrorCode(self.client.ask(request, version).topics[0].partitions[0].error_code)

    def end(self, *, committed: bool) -> ErrorCode:
        """EndTxn; the producer goes on with what it is given."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        reply = self.client.ask(request, 5)
        if reply.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return ErrorCode(reply.error_code)

    def batch(self, *partitions: int, verify_only: bool, topic: str = "t") -> AddPartitionsToTxnTransaction:
        """One transaction of AddPartitionsToTxn."""
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),),
        )


def state_of(client: Client, transactional_id: str = "x") -> tuple[str, dict[str, tuple[int, ...]]]:
    (found,) = client.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0).transaction_states
    return found.transaction_state, {topic.topic: topic.partitions for topic in found.topics}


def batched(client: Client, *batches: AddPartitionsToTxnTransaction, version: int = 5) -> list[list[ErrorCode]]:
    reply = client.ask(AddPartitionsToTxnRequest(transactions=batches), version)
    return [
        [ErrorCode(part.partition_error_code) for topic in each.topic_results for part in topic.results_by_partition]
        for each in reply.results_by_transaction
    ]


@pytest.mark.parametrize("level", [1, 2])
def test_transactions_of_writes_and_ends_alone_are_visible_when_they_are_committed(level: int) -> None:
    client = at_level(level).client()
    producer = Producer(client)
    for number, committed in enumerate((True, False, True)):
        assert producer.write(0, b"%d" % number) is ErrorCode.NONE
        assert producer.write(0, b"more", sequence=1) is ErrorCode.NONE
        assert producer.commit_offset(number) is ErrorCode.NONE
        assert producer.end(committed=committed) is ErrorCode.NONE
    assert committed_values(client, "t", 0) == [b"0", b"more", b"2", b"more"]
    assert committed_offset(client, "g", "t") == (2, ErrorCode.NONE)
    assert producer.epoch == 3


def test_a_write_begins_the_transaction_and_adds_its_partition() -> None:
    client = at_level(2).client()
    producer = Producer(client)
    producer.write(1, b"a")
    assert state_of(client) == ("Ongoing", {"t": (1,)})
    producer.commit_offset(3)
    assert set(state_of(client)[1]) == {"t", "__consumer_offsets"}


def test_a_write_is_appended_only_when_its_partition_is_added_durably(tmp_path: Path) -> None:
    node = at_level(2, storage=files_in(tmp_path), fsync="always")
    client = node.client()
    client.send(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    node.run_background_tasks()
    given = client.take(InitProducerIdResponse)
    batch = a_batch(b"a", producer_id=given.producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id="x",
        acks=-1,
        timeout_ms=1_000,
        topic_data=(TopicProduceData(name="t", partition_data=(data,)),),
    )
    client.send(request, 12)
    assert client.is_waiting
    assert node.log("t").end_offset == 0
    node.run_background_tasks()
    assert node.log("t").end_offset == 1
    (answer,) = client.take(ProduceResponse).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE
    node.close()


def test_older_requests_add_nothing() -> None:
    client = at_level(2).client()
    producer = Producer(client)
    assert producer.write(0, b"a", version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.write(0, b"a", version=10) is ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(1, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset(1, version=3) is ErrorCode.INVALID_TXN_STATE
    assert state_of(client)[0] == "Empty"


def test_a_producer_of_another_epoch_or_id_adds_nothing() -> None:
    client = at_level(2).client()
    producer = Producer(client)
    assert producer.write(0, b"a", epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.commit_offset(1, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.producer_id += 77
    assert producer.write(0, b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state_of(client)[0] == "Empty"


@pytest.mark.parametrize("version", [9, 12])
def test_a_batch_of_an_older_epoch_than_the_partition_knows_leaves_no_trace(version: int) -> None:
    client = at_level(2).client()
    producer = Producer(client)
    producer.write(0, b"a")
    producer.end(committed=True)
    assert producer.write(0, b"b") is ErrorCode.NONE
    assert producer.write(0, b"late", epoch=-1, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.write(0, b"c", sequence=1) is ErrorCode.NONE
    producer.transactional_id = "nobody"
    assert producer.write(0, b"late", epoch=-1, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_of_a_topic_there_is_not_begin_no_transaction() -> None:
    client = at_level(2).client()
    assert Producer(client).commit_offset(1, topic="nope") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert state_of(client)[0] == "Empty"


def test_a_first_batch_with_another_sequence_is_refused_and_its_partition_stays_added() -> None:
    client = at_level(2).client()
    producer = Producer(client)
    producer.write(0, b"a")
    producer.end(committed=True)
    assert producer.write(0, b"b", sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state_of(client) == ("Ongoing", {"t": (0,)})
    assert producer.write(0, b"b") is ErrorCode.NONE


@pytest.mark.parametrize(("version", "error"), [(11, ErrorCode.NONE), (12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_a_first_batch_to_a_partition_that_does_not_know_the_producer_has_sequence_0(
    version: int, error: ErrorCode
) -> None:
    client = at_level(2).client()
    producer = Producer(client)
    batched(client, producer.batch(1, verify_only=False))
    assert producer.write(1, b"a", sequence=5, version=version) is error
    assert producer.write(1, b"b", sequence=6 if version == 11 else 0, version=version) is ErrorCode.NONE


def test_level_0_has_no_room_for_it_and_older_requests_go_on() -> None:
    client = at_level(0).client()
    producer = Producer(client)
    assert producer.write(0, b"a") is ErrorCode.UNSUPPORTED_VERSION
    assert producer.commit_offset(1) is ErrorCode.UNSUPPORTED_VERSION
    assert state_of(client)[0] == "Empty"


def test_a_batch_of_transactions_is_added_each_for_itself() -> None:
    client = at_level(2).client()
    first, second = Producer(client, "x"), Producer(client, "y")
    assert batched(
        client,
        first.batch(0, 1, verify_only=False),
        second.batch(0, verify_only=True),
        second.batch(0, verify_only=False, topic="nope"),
        second.batch(0, 7, verify_only=False),
    ) == [
        [ErrorCode.NONE, ErrorCode.NONE],
        [ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert (state_of(client, "x"), state_of(client, "y")) == (("Ongoing", {"t": (0, 1)}), ("Empty", {}))


@pytest.mark.parametrize("version", [4, 5])
def test_verify_only_says_what_a_transaction_has(version: int) -> None:
    client = at_level(2).client()
    producer, unknown, nameless = Producer(client), Producer(client, "y"), Producer(client, "z")
    producer.write(0, b"a")
    unknown.transactional_id, nameless.transactional_id = "nobody", ""
    batches = [each.batch(0, 1, verify_only=True) for each in (producer, unknown, nameless)]
    assert batched(client, *batches, version=version) == [
        [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        [ErrorCode.INVALID_REQUEST] * 2,
    ]
    producer.epoch += 1
    assert batched(client, producer.batch(0, verify_only=True), version=version) == [[ErrorCode.PRODUCER_FENCED]]


def with_a_transaction_that_ends_slowly(**config: str) -> tuple[NodeUnderTest, Producer]:
    """Its outcome is decided, but the marker of the group's partition has to wait 200 ms: another node is to load that."""
    keys = {"kshim.transaction.version": "2", **{key.replace("_", "."): value for key, value in config.items()}}
    node = a_node(keys, topics={"t": 2}, node_count=2)
    clients = [node.client(node_id=node_id) for node_id in (1, 2)]
    (found,) = clients[0].ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 6).coordinators
    producer = Producer(clients[found.node_id - 1])
    offsets = node.cluster.groups.coordinator.partition_for("g")
    node.cluster.groups.partition(offsets)
    for topic, partition in (("__consumer_offsets", offsets), ("t", 0)):
        node.cluster.leader_election.move(topic, partition, found.node_id)
    node.run_background_tasks()
    assert producer.commit_offset(1) is ErrorCode.NONE
    node.cluster.leader_election.move("__consumer_offsets", offsets, 3 - found.node_id)
    assert producer.end(committed=True) is ErrorCode.NONE
    assert state_of(producer.client)[0] == "PrepareCommit"
    return node, producer


def a_write(producer: Producer) -> ProduceRequest:
    batch = a_batch(
        b"a",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    return produce_of("t", batch, acks=-1, transactional_id="x")


def error_of(client: Client) -> ErrorCode:
    return ErrorCode(only_partition(client.take(ProduceResponse)).error_code)


def test_a_write_waits_for_the_end_of_the_transaction_before_it() -> None:
    node, producer = with_a_transaction_that_ends_slowly(add_partitions_to_txn_retry_backoff_max_ms="1000")
    client = producer.client
    client.send(a_write(producer), 12)
    node.pass_ms(199)
    assert client.is_waiting
    node.run_background_tasks()
    node.pass_ms(21)
    assert error_of(client) is ErrorCode.NONE
    assert state_of(client) == ("Ongoing", {"t": (0,)})


def test_a_write_waits_a_tenth_of_a_second_at_most_unless_configured() -> None:
    node, producer = with_a_transaction_that_ends_slowly()
    client = producer.client
    client.send(a_write(producer), 12)
    node.pass_ms(99)
    assert client.is_waiting
    node.pass_ms(1)
    assert error_of(client) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.log("t").end_offset == 0


@pytest.mark.parametrize("version", [9, 11])
def test_older_writes_do_not_wait(version: int) -> None:
    _, producer = with_a_transaction_that_ends_slowly()
    assert producer.write(0, b"a", version=version) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_write_that_is_not_to_wait_does_not() -> None:
    _, producer = with_a_transaction_that_ends_slowly(add_partitions_to_txn_retry_backoff_max_ms="0")
    assert producer.write(0, b"a") is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_write_that_waits_hears_of_a_coordinator_that_moved() -> None:
    node, producer = with_a_transaction_that_ends_slowly()
    client = producer.client
    client.send(a_write(producer), 12)
    home = node.cluster.transactions.coordinator.partition_for("x")
    node.cluster.leader_election.move("__transaction_state", home, 3 - client.node_id)
    node.pass_ms(20)
    assert error_of(client) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_transactions_go_on_while_the_level_changes_under_them() -> None:
    client = at_level(0).client()
    older = TransactionalProducer(client, "older")
    older.write("t", 0, b"a")
    assert update(client, ("transaction.version", 2, 1)) == (ErrorCode.NONE, "")
    assert older.end(committed=True) is ErrorCode.NONE
    newer = TransactionalProducer(client, "newer")
    assert newer.is_version_2
    newer.write("t", 1, b"b")
    assert update(client, ("transaction.version", 0, 2)) == (ErrorCode.NONE, "")
    newer.is_version_2 = False  # the Java client looks at the level again when a transaction ends
    assert newer.end(committed=True) is ErrorCode.NONE
    newer.write("t", 1, b"c")
    assert newer.end(committed=True) is ErrorCode.NONE
    assert [committed_values(client, "t", index) for index in (0, 1)] == [[b"a"], [b"b", b"c"]]


@pytest.mark.parametrize("version", [11, 12])
def test_a_batch_behind_a_first_one_that_was_refused_is_out_of_order(version: int) -> None:
    node = a_node({"kshim.transaction.version": "2"}, topics={"t": 1})
    node.topic("small", configs={"max.message.bytes": "200"})
    client = node.client()
    producer = Producer(client)
    batched(client, producer.batch(0, verify_only=False, topic="small"))

    def write(sequence: int, value: bytes) -> ErrorCode:
        batch = a_batch(
            value,
            is_transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
        )
        return ErrorCode(produce(client, "small", batch, version, transactional_id="x").error_code)

    assert write(0, b"x" * 300) is ErrorCode.MESSAGE_TOO_LARGE
    assert write(1, b"b") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [write(0, b"a"), write(1, b"b")] == [ErrorCode.NONE] * 2
