"""Topics that are deleted: what happens at once, what later, and what when the disk fails."""

from __future__ import annotations

from pathlib import Path

from kshim.partitions.partition import Topic
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.messages.fetch import FetchResponse
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.storage.builders import FailingDisk


class CountingDisk(FailingDisk):
    """Also counts whole files that were replaced."""

    __slots__ = ("replaced",)

    def __init__(self) -> None:
        super().__init__()
        self.replaced: list[str] = []

    def write_whole_file(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        """See `OsCalls.write_whole_file`."""
        self.replaced.append(Path(path).name)
        super().write_whole_file(path, data, is_private=is_private)


def filled(node: NodeUnderTest, *names: str) -> list[Topic]:
    """New topics of three partitions, with a record in the first."""
    topics = [node.topic(name, 3) for name in names]
    for name in names:
        produce(node.client(), name, a_batch(b"old"))
    return topics


def folders(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def deletion(client: Client, *names: str) -> list[int]:
    request = DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in names), timeout_ms=1000)
    return [result.error_code for result in client.ask(request).responses]


def creation(client: Client, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=(), configs=())
    return client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=1000)).topics[0].error_code


def test_many_topics_are_deleted_with_two_writes_of_the_document_and_no_sync_of_their_logs(tmp_path: Path) -> None:
    disk = CountingDisk()
    node = a_node(storage=files_in(tmp_path, disk), fsync="interval")
    topics = filled(node, *"abcdefgh")
    disk.replaced.clear()
    disk.synced.clear()
    node.cluster.delete_topics(topics, node.now)
    assert disk.replaced == ["topics.json", "topics.json"]
    assert len(disk.synced) == 5  # each document and its directory, and the directory of the renamed folders
    node.close()


def test_folders_of_deleted_topics_are_removed_by_a_background_task(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    node.cluster.delete_topics(filled(node, "a", "b"), node.now)
    assert folders(tmp_path) == ["a-0.0-delete", "b-0.0-delete"]
    node.run_background_tasks()
    assert folders(tmp_path) == []
    node.close()


def test_a_start_after_a_crash_removes_the_folders_that_were_left(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    node.cluster.delete_topics(filled(node, "a", "b"), node.now)
    node.storage.close()
    again = a_node(storage=files_in(tmp_path))
    assert (folders(tmp_path), len(again.cluster.topics)) == ([], 0)
    again.close()


def test_what_fails_after_the_topics_are_gone_is_reported_and_everything_else_is_done(tmp_path: Path) -> None:
    disk = FailingDisk()
    node = a_node(storage=files_in(tmp_path, disk), tolerates_defects=True)
    filled(node, "a", "b")
    reader = node.client()
    reader.send(fetch_of(("b", 0, 1), min_bytes=1, max_wait_ms=60_000), 12)
    assert reader.is_waiting
    real = disk.rename

    def rename(old: str, new: str) -> None:
        if "/a-" in old:
            raise OSError(5, "Input/output error")
        real(old, new)

    disk.rename = rename
    assert deletion(node.client(), "a", "b") == [ErrorCode.NONE, ErrorCode.NONE]
    assert only_partition(reader.take(FetchResponse)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.run_background_tasks()
    assert ["cannot delete" in str(defect) for defect in node.defects] == [True]
    assert folders(tmp_path) == ["a-0"]
    assert creation(node.client(), "a") == ErrorCode.KAFKA_STORAGE_ERROR
    disk.rename = real
    assert creation(node.client(), "a") == ErrorCode.NONE
    assert node.log("a").end_offset == 0
    node.close()
