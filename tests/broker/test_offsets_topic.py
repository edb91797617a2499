"""The offsets topic over restarts: what it was made with is what counts."""

from __future__ import annotations

from pathlib import Path

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.harness import a_node, files_in


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
    node.warm()
    for group_id in groups:
        wanted = OffsetFetchRequestTopic(name="orders", partition_indexes=(0,))
        found = node.client().ask(OffsetFetchRequest(group_id=group_id, topics=(wanted,)), 2)
        assert found.topics[0].partitions[0].committed_offset == 7
    node.close()
