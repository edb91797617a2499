"""Producers are known after a restart, without reading what a snapshot speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.partitions import producer_snapshots
from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls
from kshim_protocol.errors import ErrorCode
from kshim_protocol.records.batch import iter_batches
from tests.broker.data_plane import a_batch, produce, values_in
from tests.broker.harness import NodeUnderTest, a_node, files_in
from tests.broker.test_read_committed import Transactions

LARGE = b"x" * 90_000


def bytes_read_by_opening(path: Path) -> int:
    """How much of the segments of orders-0 is read until its producers are known."""
    calls = OsCalls()
    pread, count = calls.pread, 0

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal count
        data = pread(descriptor, size, offset)
        count += len(data)
        return data

    calls.pread = counted
    node = a_node(storage=files_in(path, calls))
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.end_offset > 0
    node.run_background_tasks()
    assert len(partition.require_producers()) == 1
    node.close()
    return count


def write(node: NodeUnderTest, *, first: int, count: int) -> None:
    client = node.client()
    for sequence in range(first, first + count):
        batch = a_batch(LARGE, producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert produce(client, "orders", batch).error_code == ErrorCode.NONE


def test_after_a_clean_end_nothing_is_read(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    write(node, first=0, count=5)
    node.close()
    assert bytes_read_by_opening(tmp_path) < 2 * len(LARGE)  # opening a log checks its last batch


def test_after_a_crash_what_lies_behind_the_snapshot_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshim.partitions.partition.SNAPSHOT_BYTES", 300_000)
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    write(node, first=0, count=6)
    node.run_background_tasks()
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    assert partition.require_producers().saved_offset == 6
    partition.producers = None  # so that the end leaves no newer one
    node.close()
    node = a_node(storage=files_in(tmp_path))
    write(node, first=6, count=1)
    client = node.client()
    assert produce(client, "orders", a_batch(LARGE, producer_id=7, producer_epoch=0, base_sequence=9)).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    node.close()


def test_until_a_long_log_is_read_producers_are_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    transactions = Transactions(node)
    transactions.write(7, b"a")
    transactions.end(7, commit=False)
    for _ in range(3):
        transactions.plain(b"b")
    node.close()
    for path in tmp_path.rglob("*.snapshot"):
        path.unlink()
    monkeypatch.setattr(producer_snapshots, "_READ_AT_ONCE_BYTES", 10)
    monkeypatch.setattr(producer_snapshots, "_RUN_BYTES", 10)
    node = a_node(storage=files_in(tmp_path))
    transactions = Transactions(node)
    numbered = a_batch(producer_id=8, producer_epoch=0, base_sequence=0)
    assert transactions.fetch().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(node.client(), "orders", numbered).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(LogError):
        transactions.end(7, commit=True)
    plain = transactions.fetch(committed=False)
    assert (plain.error_code, len(list(iter_batches(plain.records or b"")))) == (ErrorCode.NONE, 5)
    assert transactions.plain(b"c") == 5
    node.run_background_tasks()
    assert transactions.committed() == [b"b", b"b", b"b", b"c"]
    assert produce(node.client(), "orders", numbered).base_offset == 6
    node.close()


def test_aborted_and_open_transactions_are_in_the_snapshot(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    transactions = Transactions(node)
    transactions.write(7, b"a")
    transactions.plain(b"b")
    transactions.end(7, commit=False)
    transactions.write(8, b"c")
    before = transactions.fetch()
    node.close()
    node = a_node(storage=files_in(tmp_path))
    transactions = Transactions(node)
    assert transactions.fetch() == before
    transactions.end(8, commit=True)
    assert transactions.committed() == [b"b", b"c"]
    node.close()


def test_a_deleted_topic_leaves_no_snapshot(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    Transactions(node).write(7, b"a")
    topic = node.cluster.topics.named("orders")
    assert topic is not None
    node.cluster.delete_topic(topic, node.now)
    node.run_background_tasks()
    assert list(tmp_path.rglob("*.snapshot")) == []
    node.close()


def test_what_compaction_removed_of_aborted_transactions_is_forgotten(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    node.topic("orders", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    transactions = Transactions(node)
    transactions.write(7, b"aborted")
    transactions.end(7, commit=False)
    transactions.write(7, b"committed")
    transactions.end(7, commit=True)
    node.log("orders").roll()
    transactions.write(8, b"later")
    transactions.end(8, commit=False)
    node.pass_ms(15_000)
    node.run_background_tasks()
    answer = transactions.fetch()
    assert answer.aborted_transactions is not None
    assert [each.producer_id for each in answer.aborted_transactions] == [8]
    assert transactions.committed() == [b"committed"]
    assert b"aborted" not in values_in(answer.records)
    node.close()
    node = a_node(storage=files_in(tmp_path))
    assert Transactions(node).fetch() == answer
    node.close()
