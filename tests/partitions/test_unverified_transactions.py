"""Batches that were to be the first of a transaction, until one of them is written (KIP-890)."""

from __future__ import annotations

import pytest

from kshim.partitions import unverified_transactions
from kshim.partitions.unverified_transactions import UnverifiedTransactions
from kshim_protocol.errors import KafkaError
from kshim_protocol.records.batch import BatchHeader, parse_batch_header
from tests.broker.data_plane import a_batch
from tests.broker.harness import a_node

EXPIRATION_MS = 1_000


def first(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return parse_batch_header(
        a_batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)
    )


def is_in_order(unverified: UnverifiedTransactions, header: BatchHeader) -> bool:
    try:
        unverified.check(header)
    except KafkaError:
        return False
    return True


def test_only_batches_behind_the_lowest_of_an_epoch_are_out_of_order() -> None:
    unverified = UnverifiedTransactions()
    for sequence in (5, 3, 8):
        unverified.begin(first(sequence), 0)
    assert [is_in_order(unverified, first(sequence)) for sequence in (2, 3, 4)] == [True, True, False]
    unverified.begin(first(6, epoch=1), 0)
    unverified.begin(first(1, epoch=0), 0)  # of an epoch that is over
    assert [is_in_order(unverified, first(sequence, epoch=1)) for sequence in (6, 7)] == [True, False]
    assert is_in_order(unverified, first(9, producer_id=8))
    unverified.end(7)
    assert is_in_order(unverified, first(9))


def test_what_was_never_verified_expires_with_its_producer() -> None:
    unverified = UnverifiedTransactions()
    unverified.begin(first(0), 0)
    unverified.begin(first(3), EXPIRATION_MS - 1)
    unverified.expire(EXPIRATION_MS - 1, expiration_ms=EXPIRATION_MS)
    assert not is_in_order(unverified, first(3))
    unverified.expire(EXPIRATION_MS, expiration_ms=EXPIRATION_MS)
    assert is_in_order(unverified, first(3))
    unverified.begin(first(3), EXPIRATION_MS)
    assert is_in_order(unverified, first(3))


def test_producers_that_never_come_back_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unverified_transactions, "MAX_PRODUCERS", 3)
    unverified = UnverifiedTransactions()
    for producer_id in range(4):
        unverified.begin(first(0, producer_id=producer_id), 0)
    assert [is_in_order(unverified, first(1, producer_id=index)) for index in range(4)] == [True, False, False, False]


def test_another_leader_knows_nothing_of_what_was_refused() -> None:
    node = a_node(topics={"orders": 1}, node_count=2)
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    unverified = partition.require_producers().unverified
    unverified.begin(first(0), 0)
    assert not is_in_order(unverified, first(1))
    node.cluster.leader_election.move("orders", 0, 3 - partition.leader.leader_id)
    assert is_in_order(partition.require_producers().unverified, first(1))
