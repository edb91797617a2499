"""A Kafka 4.4 goes on with a partition's folder from kshim, its `.snapshot` and `.txnindex` included."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.beside_kafka import seen
from tests.broker.data_plane import fetch_of, only_partition
from tests.broker.harness import a_node, files_in
from tests.broker.test_read_committed import Transactions

SUFFIXES = {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}


@pytest.mark.long
@pytest.mark.kafka
def test_kafka_knows_the_transactions_that_kshim_left(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path / "kshim"), topics={"orders": 1})
    transactions = Transactions(node)
    transactions.write(7, b"aborted")
    transactions.plain(b"plain")
    transactions.end(7, commit=False)
    transactions.write(8, b"open", b"open too")
    transactions.plain(b"behind")
    ours = transactions.fetch()
    end_offset = ours.high_watermark
    node.close()

    kafka = available(lambda: RealKafka(tmp_path / "kafka"))
    kafka.start()
    try:
        client = connect(kafka)
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=(), configs=())
        (created,) = client.ask(CreateTopicsRequest(topics=(topic,)), 5).topics
        assert created.error_code == ErrorCode.NONE
        wait_for_leader(client)
        client.close()
        kafka.stop()  # in good order, so that it believes the snapshot and looks at no record
        replace_files(tmp_path / "kshim", kafka.data, end_offset)
        kafka.start()
        client = connect(kafka)
        wait_for_leader(client)
        theirs = only_partition(client.ask(fetch_of(("orders", 0, 0), isolation_level=1), 12))
        assert seen(theirs) == seen(ours)
        request = DescribeProducersRequest(topics=(TopicRequest(name="orders", partition_indexes=(0,)),))
        (producer,) = client.ask(request, 0).topics[0].partitions[0].active_producers  # the other was silent for long
        assert (producer.producer_id, producer.last_sequence, producer.current_txn_start_offset) == (8, 1, 3)
        client.close()
    finally:
        kafka.kill()


def connect(kafka: RealKafka) -> Client:
    host, _, port = kafka.bootstrap.rpartition(":")
    return Client(host, int(port), client_id="snapshots", timeout_s=20)


def wait_for_leader(client: Client) -> None:
    for _ in range(2000):
        (topic,) = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), 9).topics
        if topic.partitions and topic.partitions[0].error_code == ErrorCode.NONE:
            answer = only_partition(client.ask(fetch_of(("orders", 0, 0)), 12))
            if answer.error_code == ErrorCode.NONE:
                return
    raise AssertionError("nobody leads orders-0")


def replace_files(ours: Path, theirs: Path, end_offset: int) -> None:
    """Put our files of orders-0 in the place of Kafka's, and say that all of them is safe and readable."""
    folder = theirs / "orders-0"
    for path in folder.iterdir():
        if path.suffix in SUFFIXES:
            path.unlink()
    for path in ours.rglob("orders-0/*"):
        shutil.copy(path, folder / path.name)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        checkpoint = theirs / name
        checkpoint.write_text(checkpoint.read_text().replace("orders 0 0", f"orders 0 {end_offset}"))
