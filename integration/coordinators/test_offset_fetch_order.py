"""OffsetFetch by topic ids answers the topics it knows first, then those it does not, on both brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from integration.support.broker import Broker
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

WAIT_S = 30


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    host, _, port = broker.bootstrap.rpartition(":")
    client = Client(host, int(port), client_id="c", timeout_s=WAIT_S)
    yield client
    client.close()


def topic_id(client: Client, name: str) -> bytes:
    """Of a topic made now."""
    new = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=())
    (made,) = client.ask(CreateTopicsRequest(topics=(new,)), 7).topics
    assert made.error_code == ErrorCode.NONE
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    deadline = time.monotonic() + WAIT_S
    while client.ask(request, 12).topics[0].error_code != ErrorCode.NONE:
        assert time.monotonic() < deadline, "the topic does not appear"
        time.sleep(0.05)
    found: bytes = made.topic_id
    return found


def test_unknown_topic_ids_come_last(client: Client) -> None:
    known = [topic_id(client, f"order-{uuid4().hex[:6]}-{number}") for number in range(2)]
    unknown = [b"\x07" * 16, b"\x03" * 16]
    asked = (unknown[0], known[1], unknown[1], known[0])
    topics = tuple(OffsetFetchRequestTopics(topic_id=each, partition_indexes=(1, 0)) for each in asked)
    group = OffsetFetchRequestGroup(group_id=f"order-{uuid4().hex[:6]}", topics=topics)
    deadline = time.monotonic() + WAIT_S
    while True:  # Kafka's coordinator may not know new topics yet
        (answered,) = client.ask(OffsetFetchRequest(groups=(group,)), 10).groups
        found = [
            (topic.topic_id, [(part.partition_index, part.error_code) for part in topic.partitions])
            for topic in answered.topics
        ]
        if dict(found)[known[0]][0][1] == ErrorCode.NONE or time.monotonic() > deadline:
            break
    none, missing = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID
    assert found == [
        (known[1], [(1, none), (0, none)]),
        (known[0], [(1, none), (0, none)]),
        (unknown[0], [(1, missing), (0, missing)]),
        (unknown[1], [(1, missing), (0, missing)]),
    ]
