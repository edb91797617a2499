"""The offsets topic over restarts: what it was made with is what counts."""

from __future__ import annotations

from pathlib import Path

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.offset_commit import OffsetCommitKey
from kshim_protocol.internal.records import parse_key, parse_value
from kshim_protocol.messages.metadata import MetadataRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.records.batch import iter_batches
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import fetch_of, list_offsets, only_partition
from tests.broker.harness import a_node, files_in

LATEST = -1


def test_groups_are_found_again_when_the_configured_partition_count_changes(tmp_path: Path) -> None:
    node = a_node({"offsets.topic.num.partitions": "50"}, topics={"orders": 1}, storage=files_in(tmp_path))
    groups = [f"group-{number}" for number in range(20)]
    for group_id in groups:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
        reply = node.client().ask(OffsetCommitRequest(group_id=group_id, member_id="", topics=(topic,)), 2)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE
    node.close()

    node = a_node({"offsets.topic.num.partitions": "3"}, storage=files_in(tmp_path))
    node.warm_up()
    for group_id in groups:
        wanted = OffsetFetchRequestTopic(name="orders", partition_indexes=(0,))
        found = node.client().ask(OffsetFetchRequest(group_id=group_id, topics=(wanted,)), 2)
        assert found.topics[0].partitions[0].committed_offset == 7
    node.close()


def test_the_offsets_topic_is_listed_as_internal_and_read_like_any_other() -> None:
    node = a_node({"offsets.topic.num.partitions": "3"}, topics={"orders": 1})
    client = node.client()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="m")
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    client.ask(OffsetCommitRequest(group_id="g", member_id="", topics=(topic,)), 2)
    listed = {found.name: found for found in client.ask(MetadataRequest(topics=None), 12).topics}
    assert (listed[OFFSETS_TOPIC].is_internal, listed["orders"].is_internal) == (True, False)
    index = node.cluster.groups.coordinator.partition_for("g")
    assert list_offsets(client, OFFSETS_TOPIC, LATEST, partition=index).offset == 1
    for version in (4, 12):
        fetched = only_partition(client.ask(fetch_of((OFFSETS_TOPIC, index, 0)), version))
        ((record,),) = (list(iter_records(batch)) for batch in iter_batches(fetched.records or b""))
        assert record.key is not None
        assert record.value is not None
        key = parse_key(record.key)
        assert isinstance(key, OffsetCommitKey)
        assert (key.group, key.topic, key.partition) == ("g", "orders", 0)
        value = parse_value(key, record.value)
        assert (value.offset, value.metadata) == (7, "m")
