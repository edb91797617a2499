"""When logs are compacted and lose old records: requests from outside, time that a test moves."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.partitions.log_cleaner import DIRTY_BYTES, IDLE_DIRTY_BYTES, IDLE_MS, RETRY_MS, SAVE_MS
from kshim.storage.log import Log
from kshim.storage.storage import Storage
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kshim_protocol.partitioner import partition_for
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, fetch_of, only_partition, produce, values_in
from tests.broker.harness import START_WALL_MS, Client, NodeUnderTest, a_node, files_in
from tests.storage.builders import FailingDisk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIB = 1 << 20
CHECK_MS = 300_000


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else files_in(tmp_path)


def pass_with_background_tasks(node: NodeUnderTest, ms: int, step_ms: int = 1_000) -> None:
    """Time passes, and whatever is to be done is done at once."""
    while ms > 0:
        node.pass_ms(min(step_ms, ms))
        ms -= step_ms
        node.run_background_tasks()


def commit(client: Client, offset: int, *, group: str = "g", partitions: int = 100) -> None:
    reply = client.ask(
        OffsetCommitRequest(
            group_id=group,
            member_id="",
            topics=(
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                        for index in range(partitions)
                    ),
                ),
            ),
        ),
        8,
    )
    assert {partition.error_code for partition in reply.topics[0].partitions} == {ErrorCode.NONE}


def committed(client: Client, *, group: str = "g") -> set[int]:
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=tuple(range(100))),)
    reply = client.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=topics),)), 8)
    return {partition.committed_offset for partition in reply.groups[0].topics[0].partitions}


def shard_log(node: NodeUnderTest, group: str = "g") -> Log:
    return node.log(OFFSETS_TOPIC, partition_for(group, 50))


class TestTheOffsetsTopic:
    def test_it_stays_small_under_endless_commits(self, storage: Storage) -> None:
        node = a_node(topics={"orders": 100}, storage=storage)
        client = node.client()
        largest = 0
        for offset in range(1, 400):
            commit(client, offset)
            node.run_background_tasks()
            largest = max(largest, shard_log(node).size_bytes)
        assert shard_log(node).end_offset == 39_900
        assert MIB / 2 < largest < 2 * DIRTY_BYTES
        assert committed(client) == {399}
        node.close()

    def test_an_idle_log_is_compacted_earlier(self, storage: Storage) -> None:
        node = a_node(topics={"orders": 100}, storage=storage)
        client = node.client()
        for offset in range(1, 20):
            commit(client, offset)
        node.run_background_tasks()
        assert shard_log(node).size_bytes > IDLE_DIRTY_BYTES
        pass_with_background_tasks(node, 3 * IDLE_MS)
        assert shard_log(node).size_bytes < 20_000
        pass_with_background_tasks(node, SAVE_MS)
        assert node.node.next_real_deadline() is None, "a timer although nothing grows"
        assert committed(client) == {19}
        node.close()

    def test_one_that_still_grows_is_not_idle(self, storage: Storage) -> None:
        node = a_node(topics={"orders": 100}, storage=storage)
        client = node.client()
        for offset in range(1, 30):
            commit(client, offset)
            pass_with_background_tasks(node, IDLE_MS // 2)
        assert len(shard_log(node).segments()) == 1
        node.close()

    def test_an_idle_log_is_compacted_again_after_it_has_grown_again(self, storage: Storage) -> None:
        node = a_node(topics={"orders": 100}, storage=storage)
        client = node.client()
        for _ in range(3):
            for offset in range(1, 20):
                commit(client, offset)
            pass_with_background_tasks(node, 3 * IDLE_MS)
            assert shard_log(node).size_bytes < 20_000
        node.close()

    def test_what_is_live_is_not_compacted_again_and_again(self, storage: Storage) -> None:
        node = a_node(topics={"orders": 100}, storage=storage)
        client = node.client()
        for number in range(20):  # all of it live
            commit(client, 1, group="g")
            commit(client, 1, group=same_shard_as("g", number))
        pass_with_background_tasks(node, 3 * IDLE_MS)
        segments = shard_log(node).segments()
        commit(client, 2)
        pass_with_background_tasks(node, 3 * IDLE_MS)
        assert [segment.base_offset for segment in shard_log(node).segments()] == [
            segment.base_offset for segment in segments
        ]
        node.close()

    def test_with_fsync_always_only_what_is_durable_is_compacted(self, tmp_path: Path) -> None:
        node = a_node(topics={"orders": 100}, storage=files_in(tmp_path), fsync="always")
        client = node.client()
        for offset in range(1, 20):
            client.send(commit_request(offset), 8)
            node.run_background_tasks()
        pass_with_background_tasks(node, 3 * IDLE_MS)
        assert shard_log(node).size_bytes < 20_000
        node.close()

    def test_a_full_disk_is_tried_again_after_a_while(self, tmp_path: Path) -> None:
        disk = FailingDisk()
        node = a_node(topics={"orders": 100}, storage=files_in(tmp_path, disk), tolerates_defects=True)
        client = node.client()
        for offset in range(1, 20):
            commit(client, offset)
        node.run_background_tasks()
        disk.broken.add("open")  # of the new segment, or of the one that is to replace others
        pass_with_background_tasks(node, 5 * IDLE_MS)
        assert len(node.defects) == 1
        assert committed(client) == {19}
        disk.broken.clear()
        pass_with_background_tasks(node, RETRY_MS + 3 * IDLE_MS)
        assert len(node.defects) == 1
        assert shard_log(node).size_bytes < 20_000
        node.close()

    def test_the_cleaner_can_be_switched_off(self, storage: Storage) -> None:
        node = a_node({"log.cleaner.enable": "false"}, topics={"orders": 100}, storage=storage)
        client = node.client()
        for offset in range(1, 200):
            commit(client, offset)
            node.run_background_tasks()
        pass_with_background_tasks(node, 3 * IDLE_MS)
        assert shard_log(node).size_bytes > DIRTY_BYTES
        node.close()

    def test_a_graceful_end_leaves_little_behind(self, tmp_path: Path) -> None:
        node = a_node(topics={"orders": 100}, storage=files_in(tmp_path))
        client = node.client()
        for offset in range(1, 50):
            commit(client, offset)
        node.close()
        assert sum(path.stat().st_size for path in tmp_path.glob("__consumer_offsets-*/*.log")) < 20_000

        again = a_node(storage=files_in(tmp_path))
        again.run_background_tasks()
        assert committed(again.client()) == {49}
        again.close()

    def test_a_start_knows_what_was_compacted(self, tmp_path: Path) -> None:
        node = a_node(topics={"orders": 100}, storage=files_in(tmp_path))
        for offset in range(1, 50):
            commit(node.client(), offset)
        node.close()
        lines = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
        assert lines == ["0", "1", f"{OFFSETS_TOPIC} {partition_for('g', 50)} 4900"]
        assert files_in_check(tmp_path, partition_for("g", 50)) == 4900


def files_in_check(path: Path, partition: int) -> int:
    storage = files_in(path)
    try:
        return storage.clean_offset(OFFSETS_TOPIC, partition)
    finally:
        storage.close()


def same_shard_as(group: str, number: int) -> str:
    """Another group of the same partition of the offsets topic."""
    wanted = partition_for(group, 50)
    names = (f"other-{n}" for n in range(100_000))
    return next(islice((name for name in names if partition_for(name, 50) == wanted), number, None))


def commit_request(offset: int) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(100)
    )
    return OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitRequestTopic(name="orders", partitions=partitions),)
    )


def fill(client: Client, topic: str, *values: str, key: str = "k", size_bytes: int = 400_000) -> None:
    for value in values:
        batch = a_batch(value.encode().ljust(size_bytes, b"."), key=key.encode())
        assert produce(client, topic, batch).error_code == ErrorCode.NONE


def left(node: NodeUnderTest, topic: str) -> list[str]:
    """The values that are still there, without their padding."""
    return [
        (record.value or b"").rstrip(b".").decode()
        for batch in node.log(topic).batches()
        for record in iter_records(batch)
    ]


class TestCompactedTopics:
    CONFIG: ClassVar = {"cleanup.policy": "compact", "segment.bytes": str(MIB), "max.message.bytes": str(MIB)}

    def test_sealed_segments_are_compacted_once_enough_is_dirty(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("table", 1, self.CONFIG)
        fill(node.client(), "table", *"abcdefgh")
        pass_with_background_tasks(node, 15_000)
        assert left(node, "table") == ["f", "g", "h"], "two records a segment, the last segment is active"
        node.close()

    def test_not_before_min_cleanable_dirty_ratio(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("table", 1, self.CONFIG | {"min.cleanable.dirty.ratio": "0.9"})
        client = node.client()
        for key in "stuvwxyz":
            fill(client, "table", key, key=key)
        pass_with_background_tasks(node, 15_000)  # everything was dirty
        fill(client, "table", *"abcd")
        pass_with_background_tasks(node, 15_000)
        assert left(node, "table")[-4:] == ["a", "b", "c", "d"]
        node.close()

    def test_max_compaction_lag_overrules_the_ratio_and_rolls_the_segment(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        lag = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(HOUR_MS)}
        node.topic("table", 1, self.CONFIG | lag)
        client = node.client()
        fill(client, "table", "a", "b", size_bytes=10)
        pass_with_background_tasks(node, 2 * HOUR_MS, 60_000)
        assert left(node, "table") == ["a", "b"], "still active"
        produce(client, "table", a_batch(b"c", timestamp_ms=node.wall_ms))
        pass_with_background_tasks(node, 15_000)
        assert left(node, "table") == ["b", "c"]
        node.close()

    def test_min_compaction_lag_protects_young_records(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("table", 1, self.CONFIG | {"min.compaction.lag.ms": str(HOUR_MS)})
        fill(node.client(), "table", *"abcdefgh")
        pass_with_background_tasks(node, HOUR_MS - 30_000, 15_000)
        assert len(left(node, "table")) == 8
        pass_with_background_tasks(node, 60_000, 15_000)
        assert left(node, "table") == ["f", "g", "h"]
        node.close()

    def test_tombstones_stay_for_delete_retention(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("table", 1, self.CONFIG | {"delete.retention.ms": "60000"})
        client = node.client()
        fill(client, "table", "a", key="gone")
        produce(client, "table", a_tombstone("gone"))
        fill(client, "table", *"bcde")
        pass_with_background_tasks(node, 15_000)
        assert left(node, "table")[0] == ""
        pass_with_background_tasks(node, 75_000, 15_000)
        assert "" not in left(node, "table")
        node.close()

    def test_a_log_of_an_earlier_run_is_looked_after_without_being_used(self, tmp_path: Path) -> None:
        node = a_node(storage=files_in(tmp_path))
        node.topic("table", 1, self.CONFIG)
        fill(node.client(), "table", *"abcdefgh")
        node.close()
        again = a_node(storage=files_in(tmp_path))
        pass_with_background_tasks(again, 15_000)
        assert left(again, "table") == ["f", "g", "h"]
        again.close()

    def test_a_damaged_batch_is_reported_and_the_log_left_alone(self, storage: Storage) -> None:
        node = a_node(storage=storage, tolerates_defects=True)
        node.topic("table", 1, self.CONFIG)
        client = node.client()
        fill(client, "table", *"ab")
        damaged = bytearray(a_batch(b"c" * 10))
        damaged[-3] ^= 1
        node.log("table").append(bytes(damaged))
        fill(client, "table", *"defgh")
        pass_with_background_tasks(node, 15_000)
        assert [type(defect).__name__ for defect in node.defects] == ["UncleanableBatch"]
        assert len(list(node.log("table").batches())) == 8
        node.close()


def a_tombstone(key: str) -> bytes:
    from kshim_protocol.records.batch import build_batch
    from kshim_protocol.records.record import Record

    return build_batch([Record(key.encode(), None, timestamp_ms=START_WALL_MS)])


class TestRetention:
    CONFIG: ClassVar = {"segment.bytes": str(MIB), "max.message.bytes": str(MIB)}

    def test_old_segments_go(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("orders", 1, self.CONFIG | {"retention.ms": str(HOUR_MS)})
        client = node.client()
        fill(client, "orders", *"abcd")
        pass_with_background_tasks(node, HOUR_MS - CHECK_MS, CHECK_MS)
        produce(client, "orders", a_batch(b"young" * 80_000, timestamp_ms=node.wall_ms))
        pass_with_background_tasks(node, 2 * CHECK_MS, CHECK_MS)
        log = node.log("orders")
        assert (log.start_offset, log.end_offset, log.size_bytes < MIB) == (4, 5, True)
        pass_with_background_tasks(node, HOUR_MS, CHECK_MS)
        assert (log.start_offset, log.end_offset, log.size_bytes) == (5, 5, 0)
        node.close()

    def test_records_stay_for_a_week_unless_the_topic_or_the_broker_says_otherwise(self, storage: Storage) -> None:
        node = a_node({"log.retention.hours": "2"}, storage=storage)
        node.topic("default", 1, {})
        node.topic("for-ever", 1, {"retention.ms": "-1"})
        for topic in ("default", "for-ever"):
            fill(node.client(), topic, "a", size_bytes=10)
        pass_with_background_tasks(node, 2 * HOUR_MS, CHECK_MS)
        assert left(node, "default") == ["a"]
        pass_with_background_tasks(node, CHECK_MS, CHECK_MS)
        assert (left(node, "default"), left(node, "for-ever")) == ([], ["a"])
        node.close()

    def test_the_oldest_segments_of_a_large_log_go(self, storage: Storage) -> None:
        node = a_node({"log.retention.bytes": str(MIB)}, storage=storage)
        node.topic("orders", 1, self.CONFIG)
        fill(node.client(), "orders", *"abcdefgh")
        pass_with_background_tasks(node, CHECK_MS, CHECK_MS)
        assert left(node, "orders") == ["e", "f", "g", "h"]
        node.close()

    def test_a_segment_ends_when_its_first_record_is_segment_ms_old(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("orders", 1, {"segment.ms": str(HOUR_MS)})
        client = node.client()
        for age_ms in (0, HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS):
            produce(client, "orders", a_batch(b"v", timestamp_ms=node.wall_ms + age_ms - HOUR_MS))
        assert [segment.base_offset for segment in node.log("orders").segments()] == [0, 2]
        node.close()

    def test_readers_of_what_is_gone_are_told_when_their_time_is_over(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("orders", 1, self.CONFIG | {"retention.bytes": "0"})
        client, waiting = node.client(), node.client()
        fill(client, "orders", *"abcd")
        waiting.send(fetch_of(("orders", 0, 1), min_bytes=100 * MIB, max_wait_ms=2 * CHECK_MS), 12)
        pass_with_background_tasks(node, CHECK_MS, CHECK_MS)
        assert waiting.is_waiting
        pass_with_background_tasks(node, CHECK_MS, CHECK_MS)
        assert only_partition(waiting.take(FetchResponse)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = only_partition(client.ask(fetch_of(("orders", 0, 4)), 12))
        assert (found.error_code, found.log_start_offset, values_in(found.records)) == (ErrorCode.NONE, 4, [])
        node.close()

    def test_compacted_topics_keep_what_is_old(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic("table", 1, {"cleanup.policy": "compact", "retention.ms": "1000"})
        fill(node.client(), "table", "a", size_bytes=10)
        pass_with_background_tasks(node, 3 * CHECK_MS, CHECK_MS)
        assert left(node, "table") == ["a"]
        node.close()

    def test_with_both_policies_both_happen(self, storage: Storage) -> None:
        node = a_node(storage=storage)
        node.topic(
            "table", 1, TestCompactedTopics.CONFIG | {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR_MS)}
        )
        fill(node.client(), "table", *"abcdefgh")
        pass_with_background_tasks(node, 15_000)
        assert left(node, "table") == ["f", "g", "h"]
        pass_with_background_tasks(node, 2 * HOUR_MS, CHECK_MS)
        assert left(node, "table") == []
        node.close()
