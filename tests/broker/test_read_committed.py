"""Transactions in one partition: what READ_COMMITTED readers see of them (KIP-98). Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.partitions.partition import Partition
from kshim.partitions.transaction_markers import append_marker
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.fetch import FetchResponse, PartitionData
from kshim_protocol.records.batch import iter_batches, parse_batch_header
from kshim_protocol.records.control import ControlType, parse_control_record
from kshim_protocol.records.record import iter_records
from tests.broker.data_plane import a_batch, fetch_of, list_offsets, only_partition, values_in
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in

LATEST = -1


class Transactions:
    """Writes to orders-0 as producers with transactions do; the coordinator's part is left out."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.node = node
        self._sequences: dict[tuple[int, int], int] = {}

    @property
    def partition(self) -> Partition:
        found = self.node.cluster.topics.partition("orders", 0)
        assert found is not None
        return found

    def write(self, producer_id: int, *values: bytes, epoch: int = 0) -> int:
        sequence = self._sequences.get((producer_id, epoch), 0)
        self._sequences[producer_id, epoch] = sequence + len(values)
        batch = a_batch(
            *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
        )
        return self.partition.append(batch)

    def plain(self, *values: bytes) -> int:
        return self.partition.append(a_batch(*values))

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
        return append_marker(
            self.partition,
            producer_id=producer_id,
            producer_epoch=epoch,
            is_commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=self.node.wall_ms,
        )

    def fetch(self, offset: int = 0, *, committed: bool = True) -> PartitionData:
        request = fetch_of(("orders", 0, offset), isolation_level=int(committed))
        return only_partition(self.node.client().ask(request, 12))

    def committed(self, offset: int = 0) -> list[bytes | None]:
        """What a consumer makes of the answer: batches of aborted transactions and markers are left out."""
        answer = self.fetch(offset)
        assert answer.aborted_transactions is not None
        aborted = sorted(answer.aborted_transactions, key=lambda each: each.first_offset)
        skipped: set[int] = set()
        values = []
        for batch in iter_batches(answer.records or b""):
            header = parse_batch_header(batch)
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                marker = parse_control_record(next(iter_records(batch)))
                if marker is not None and marker.control_type is ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in skipped:
                values += [record.value for record in iter_records(batch) if record.offset >= offset]
        return values


@pytest.fixture
def transactions(node: NodeUnderTest) -> Transactions:
    return Transactions(node)


def a_waiting_fetch(node: NodeUnderTest, offset: int, *, committed: bool, min_bytes: int = 1) -> Client:
    client = node.client()
    request = fetch_of(
        ("orders", 0, offset), max_wait_ms=60_000, min_bytes=min_bytes, isolation_level=1 if committed else 0
    )
    client.send(request, 12)
    return client


def test_nothing_from_the_first_open_transaction_on_is_shown(transactions: Transactions) -> None:
    transactions.plain(b"a")
    transactions.write(7, b"b")
    transactions.plain(b"c")
    answer = transactions.fetch()
    assert (answer.high_watermark, answer.last_stable_offset, values_in(answer.records)) == (3, 1, [b"a"])
    answer = transactions.fetch(committed=False)
    assert (answer.high_watermark, answer.last_stable_offset, values_in(answer.records)) == (3, 1, [b"a", b"b", b"c"])
    assert answer.aborted_transactions is None


def test_a_committed_transaction_is_shown(transactions: Transactions) -> None:
    transactions.write(7, b"a", b"b")
    assert transactions.end(7, commit=True) == 2
    answer = transactions.fetch()
    assert (answer.last_stable_offset, answer.aborted_transactions) == (3, ())
    assert transactions.committed() == [b"a", b"b"]


def test_an_aborted_transaction_is_named_with_its_first_offset(transactions: Transactions) -> None:
    transactions.plain(b"a")
    transactions.write(7, b"b")
    transactions.write(7, b"c")
    transactions.end(7, commit=False)
    transactions.write(7, b"d")
    transactions.end(7, commit=True)
    answer = transactions.fetch()
    assert answer.aborted_transactions is not None
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [(7, 1)]
    assert transactions.committed() == [b"a", b"d"]
    assert transactions.committed(2) == [b"d"]
    assert transactions.fetch(4).aborted_transactions == ()


def test_transactions_that_overlap_are_told_apart(transactions: Transactions) -> None:
    transactions.write(7, b"7a")
    transactions.write(8, b"8a")
    transactions.write(7, b"7b")
    transactions.end(7, commit=True)
    assert transactions.committed() == [b"7a"]
    transactions.write(9, b"9a")
    transactions.end(8, commit=False)
    assert transactions.committed() == [b"7a", b"7b"]
    transactions.end(9, commit=True)
    assert transactions.committed() == [b"7a", b"7b", b"9a"]


def test_the_end_of_what_is_committed_is_the_latest_offset_of_readers_of_that(transactions: Transactions) -> None:
    transactions.plain(b"a")
    transactions.write(7, b"b")
    client = transactions.node.client()
    assert list_offsets(client, "orders", LATEST, isolation_level=1).offset == 1
    assert list_offsets(client, "orders", LATEST, isolation_level=0).offset == 2


@pytest.mark.parametrize(("start", "stable"), [(1, 0), (2, 2), (3, 3)])
def test_the_last_stable_offset_is_not_left_behind_by_a_start_that_moves(
    transactions: Transactions, start: int, stable: int
) -> None:
    transactions.write(1, b"a", b"b")
    transactions.plain(b"c")
    transactions.partition.delete_before(start)
    assert transactions.fetch(3).last_stable_offset == stable
    assert list_offsets(transactions.node.client(), "orders", LATEST, isolation_level=1).offset == stable


def test_a_waiting_reader_of_what_is_committed_is_woken_by_the_marker(
    node: NodeUnderTest, transactions: Transactions
) -> None:
    committed = a_waiting_fetch(node, 0, committed=True)
    uncommitted = a_waiting_fetch(node, 0, committed=False)
    transactions.write(7, b"a")
    assert (committed.is_waiting, uncommitted.is_waiting) == (True, False)
    transactions.plain(b"b")
    assert committed.is_waiting
    transactions.end(7, commit=True)
    answer = only_partition(committed.take(FetchResponse))
    assert values_in(answer.records)[:2] == [b"a", b"b"]


def test_a_waiting_reader_counts_what_has_become_stable_only(node: NodeUnderTest, transactions: Transactions) -> None:
    size_bytes = len(a_batch(b"a"))
    client = a_waiting_fetch(node, 0, committed=True, min_bytes=3 * size_bytes)
    transactions.write(7, b"a")
    transactions.write(8, b"b")
    transactions.plain(b"c")
    transactions.end(7, commit=True)
    assert client.is_waiting
    transactions.end(8, commit=True)
    assert not client.is_waiting


def test_a_marker_without_transaction_fences_older_epochs_and_hides_nothing(transactions: Transactions) -> None:
    transactions.write(7, b"a")
    transactions.end(7, commit=False, epoch=1)
    assert transactions.fetch().last_stable_offset == 2
    transactions.end(7, commit=False, epoch=2)
    assert transactions.fetch().last_stable_offset == 3
    with pytest.raises(KafkaError, match="older than 2") as refused:
        transactions.end(7, commit=True, epoch=1)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactions.committed() == []


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(transactions: Transactions) -> None:
    transactions.write(7, b"a")
    transactions.end(7, commit=True, coordinator_epoch=3)
    with pytest.raises(KafkaError) as refused:
        transactions.end(7, commit=True, coordinator_epoch=2)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_what_was_aborted_or_open_stays_so_after_a_restart(tmp_path: Path) -> None:
    before = a_node(storage=files_in(tmp_path), topics={"orders": 1})
    transactions = Transactions(before)
    transactions.write(7, b"aborted")
    transactions.write(8, b"committed")
    transactions.end(7, commit=False)
    transactions.end(8, commit=True)
    transactions.write(9, b"open")
    before.close()
    after = a_node(storage=files_in(tmp_path))
    transactions = Transactions(after)
    assert transactions.fetch().last_stable_offset == 4
    assert transactions.committed() == [b"committed"]
    transactions.end(9, commit=True)
    assert transactions.committed() == [b"committed", b"open"]
    after.close()


def test_where_only_durable_records_are_shown_a_marker_counts_when_it_is_durable(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path), topics={"orders": 1}, fsync="always")
    transactions = Transactions(node)
    transactions.write(7, b"a")
    node.run_background_tasks()
    client = a_waiting_fetch(node, 0, committed=True)
    transactions.end(7, commit=True)
    assert transactions.fetch().last_stable_offset == 0
    assert client.is_waiting
    node.run_background_tasks()
    assert values_in(only_partition(client.take(FetchResponse)).records)[:1] == [b"a"]
    assert transactions.committed() == [b"a"]
    node.close()
