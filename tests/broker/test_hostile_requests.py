"""Requests that are well-formed and mean no good: each is answered, and none takes more than its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kshim.storage.stores import MemoryStorage
from kshim.storage.topic_spec import TopicSpec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kshim_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.crc import crc32c
from kshim_protocol.schema import Request
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import a_node


def test_an_error_text_that_repeats_a_long_name_still_fits_into_the_answer() -> None:
    name = "é" * 16_383
    partitions = (ReassignablePartition(partition_index=0, replicas=(1,)),)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=0, topics=(ReassignableTopic(name=name, partitions=partitions),)
    )
    answer = a_node().client().ask(request, 0)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (partition.error_message or "").endswith("...")


CRC_AT, ATTRIBUTES_AT = 17, 21
LONG = "é" * 16_383
"""As long as a name may be on the wire."""


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeGroupsRequest(groups=(LONG,)), 6),
        (DescribeUserScramCredentialsRequest(users=(UserName(name=LONG),)), 0),
        (ElectLeadersRequest(topic_partitions=(TopicPartitions(topic=LONG, partitions=(0,)),), timeout_ms=0), 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_whatever_repeats_a_long_name_fits_into_the_answer(request_: Request[Any], version: int) -> None:
    answer = a_node().client().ask(request_, version)
    assert repr(answer).count(LONG) == 1
    assert f"{LONG[:1_900]}" in repr(answer).replace(LONG, "")


def test_a_batch_whose_highest_attribute_is_set_can_be_compressed_anew() -> None:
    node = a_node()
    node.topic("orders", 1, {"compression.type": "uncompressed"})
    batch = bytearray(a_batch(b"a", compression=Compression.GZIP))
    batch[ATTRIBUTES_AT] |= 0x80
    batch[CRC_AT:ATTRIBUTES_AT] = crc32c(bytes(batch[ATTRIBUTES_AT:])).to_bytes(4, "big")
    client = node.client()
    assert produce(client, "orders", bytes(batch)).error_code == ErrorCode.NONE
    stored = node.log("orders").read(0, 1_000)
    assert stored[ATTRIBUTES_AT] == 0x80
    assert stored[ATTRIBUTES_AT + 1] == Compression.NONE


class CountedSaves(MemoryStorage):
    """Counts how often all topics are written down, which costs as much as there are topics."""

    saves = 0

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        self.saves += 1
        super().save_topics(topics)


def test_topics_made_or_deleted_by_one_request_are_written_down_once() -> None:
    storage = CountedSaves()
    client = a_node(storage=storage).client()
    topics = tuple(
        CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1, assignments=(), configs=())
        for number in range(100)
    )
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=0), 5)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    assert storage.saves == 1
    asked = tuple(MetadataRequestTopic(name=f"found-{number}") for number in range(100))
    found = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9)
    assert {topic.error_code for topic in found.topics} == {ErrorCode.NONE}
    assert storage.saves == 2
    names = tuple(f"found-{number}" for number in range(100))
    gone = client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=0), 5)
    assert {topic.error_code for topic in gone.responses} == {ErrorCode.NONE}
    assert storage.saves == 3


def test_metadata_makes_no_more_topics_than_one_request_of_create_topics() -> None:
    client = a_node().client()
    asked = tuple(MetadataRequestTopic(name=f"found-{number}") for number in range(6_000))
    found = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9)
    codes = Counter(topic.error_code for topic in found.topics)
    assert codes == {ErrorCode.NONE: 5_000, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1_000}


def test_of_two_names_that_differ_in_a_dot_metadata_makes_the_first() -> None:
    client = a_node().client()
    asked = (MetadataRequestTopic(name="a.b"), MetadataRequestTopic(name="a_b"))
    for _ in range(2):
        found = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9)
        assert [topic.error_code for topic in found.topics] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


def test_offsets_committed_for_longer_than_time_lasts_are_kept() -> None:
    client = a_node(topics={"orders": 1}).client()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id="g",
        member_id="",
        retention_time_ms=(1 << 63) - 1,
        topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
    )
    answer = client.ask(commit, 4)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    asked = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(name="orders", partition_indexes=(0,)),))
    assert client.ask(asked, 4).topics[0].partitions[0].committed_offset == 7
