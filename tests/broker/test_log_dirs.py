"""DescribeLogDirs: what there is on disk, or in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kshim_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.broker.data_plane import a_batch, produce
from tests.broker.harness import NodeUnderTest, a_node, files_in


def described(
    node: NodeUnderTest, topics: dict[str, tuple[int, ...]] | None = None, *, node_id: int = 1, version: int = 5
) -> DescribeLogDirsResult:
    rows = None
    if topics is not None:
        rows = tuple(DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items())
    answer = node.client(node_id=node_id).ask(DescribeLogDirsRequest(topics=rows), version)
    assert answer.error_code == 0
    (found,) = answer.results
    assert found.error_code == 0
    return found


def sizes(found: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    assert all((row.offset_lag, row.is_future_key) == (0, False) for topic in found.topics for row in topic.partitions)
    return {(topic.name, row.partition_index): row.partition_size for topic in found.topics for row in topic.partitions}


def test_a_directory_is_told_with_its_volume_and_the_sizes_of_all_logs(tmp_path: Path) -> None:
    node = a_node(topics={"orders": 2}, storage=files_in(tmp_path))
    batch = a_batch(b"x" * 100)
    produce(node.client(), "orders", batch)
    found = described(node)
    assert found.log_dir == str(tmp_path)
    assert found.total_bytes > found.usable_bytes > 0
    assert sizes(found) == {("orders", 0): len(batch), ("orders", 1): 0}
    log_file = next((tmp_path / "orders-0").glob("*.log"))
    assert log_file.stat().st_size == len(batch)
    node.close()


def test_logs_in_memory_have_sizes_and_no_volume() -> None:
    node = a_node(topics={"orders": 1})
    produce(node.client(), "orders", a_batch())
    found = described(node)
    assert (found.log_dir, found.total_bytes, found.usable_bytes) == ("memory", -1, -1)
    assert sizes(found) == {("orders", 0): len(a_batch())}


def test_only_what_is_asked_for_and_there_is_told() -> None:
    node = a_node(topics={"orders": 2, "clicks": 1})
    assert sizes(described(node, {"orders": (1, 9, -1), "nope": (0,), "clicks": ()})) == {("orders", 1): 0}
    assert sizes(described(node, {})) == {}


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_tells_the_same(version: int) -> None:
    assert sizes(described(a_node(topics={"orders": 1}), version=version)) == {("orders", 0): 0}


def test_each_of_several_nodes_tells_of_what_it_leads() -> None:
    node = a_node(node_count=2, topics={"orders": 4})
    told = [set(sizes(described(node, node_id=node_id))) for node_id in (1, 2)]
    leaders = {("orders", index): node.cluster.leader_of("orders", index) for index in range(4)}
    assert told == [{place for place, leader in leaders.items() if leader == node_id} for node_id in (1, 2)]


def moved(node: NodeUnderTest, path: str, name: str, *indexes: int) -> list[str]:
    """What is said of partitions that shall be in a directory."""
    request = AlterReplicaLogDirsRequest(
        dirs=(AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=name, partitions=indexes),)),)
    )
    (found,) = node.client().ask(request, 2).results
    assert found.topic_name == name
    assert tuple(row.partition_index for row in found.partitions) == indexes
    return [ErrorCode(row.error_code).name for row in found.partitions]


def test_nothing_moves_as_there_is_one_directory(tmp_path: Path) -> None:
    node = a_node(topics={"orders": 1}, storage=files_in(tmp_path))
    assert moved(node, str(tmp_path), "orders", 0, 1) == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert moved(node, str(tmp_path), "nope", 0) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert moved(node, str(tmp_path / "other"), "orders", 0) == ["LOG_DIR_NOT_FOUND"]
    assert moved(node, str(tmp_path), "x" * 230, 0) == ["INVALID_TOPIC_EXCEPTION"]
    node.close()
