"""Acquiring and acknowledging records of one share partition. Ranges, counts and sentences are those of a live 4.4."""

from __future__ import annotations

import pytest

from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.in_flight import RecordState
from kshim.share_partitions.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledged,
    SharePartition,
    StateBatch,
    Write,
)
from kshim_protocol.errors import ErrorCode, KafkaError

LIMITS = Limits(max_records=500, batch_size=500)
FIVES = [(0, 4), (5, 9), (10, 14)]
"""Record batches of five records each."""


def acquired(
    partition: SharePartition,
    member_id: str = "a",
    batches: list[tuple[int, int]] | None = None,
    now_ms: int = 0,
    limits: Limits = LIMITS,
) -> str:
    """What a member gets, in words: `0-4x1 5-9x1`."""
    found = partition.acquire(member_id, FIVES if batches is None else batches, limits, now_ms)
    return " ".join(f"{one.first_offset}-{one.last_offset}x{one.delivery_count}" for one in found)


def said(
    partition: SharePartition,
    first: int,
    last: int,
    *types: int,
    member_id: str = "a",
    error: ErrorCode = ErrorCode.NONE,
    limits: Limits = LIMITS,
) -> Write | None:
    """A member says what became of a range, and that is written, or fails with `error`."""
    write = partition.acknowledge(member_id, [Acknowledged(first, last, types)], limits, 0)
    if write is not None:
        write.settle(error, 0)
    return write


def refusal(partition: SharePartition, first: int, last: int, *types: int, member_id: str = "a") -> str:
    with pytest.raises(KafkaError) as refused:
        said(partition, first, last, *types, member_id=member_id)
    return f"{refused.value.code.name} {refused.value.message}"


def states(partition: SharePartition) -> str:
    """All records in flight, from the start on; neighbours that are alike together."""
    found: list[tuple[int, int, str]] = []
    for run in partition.runs:
        first, words = max(run.first, partition.start_offset), f"{run.state.name.lower()}x{run.delivery_count}"
        if found and found[-1][1:] == (first - 1, words):
            found[-1] = (found[-1][0], run.last, words)
        elif run.last >= first:
            found.append((first, run.last, words))
    return " ".join(f"{first}-{last}:{words}" for first, last, words in found)


@pytest.mark.parametrize(
    ("max_records", "batch_size", "is_exact", "expected"),
    [
        (500, 500, False, "0-14x1"),
        (7, 3, False, "0-4x1 5-9x1"),
        (7, 0, False, "0--1x1 0-4x1 5-9x1"),  # as Kafka says it: a range without a record comes first
        (7, 500, False, "0-9x1"),
        (1, 500, False, "0-4x1"),
        (3, 500, True, "0-2x1"),
        (7, 3, True, "0-6x1"),
        (7, 500, True, "0-6x1"),
    ],
)
def test_whole_batches_are_acquired_unless_the_limit_is_exact(
    max_records: int, batch_size: int, is_exact: bool, expected: str
) -> None:
    limits = Limits(max_records=max_records, batch_size=batch_size, is_exact=is_exact)
    assert acquired(SharePartition(0), limits=limits) == expected


def test_what_one_member_holds_another_does_not_get() -> None:
    partition = SharePartition(0)
    first_batch = Limits(max_records=1, batch_size=1)
    assert acquired(partition, "a", limits=first_batch) == "0-4x1"
    assert partition.next_offset == 5
    assert acquired(partition, "b", limits=first_batch) == "5-9x1"
    assert acquired(partition, "a", batches=[(0, 4), (5, 9)]) == ""


def test_the_window_of_records_in_flight_ends_with_a_batch_and_moves_with_the_head() -> None:
    limits = Limits(max_records=500, batch_size=500, max_in_flight=7)
    partition = SharePartition(0)
    assert acquired(partition, limits=limits) == "0-9x1"
    assert not partition.may_acquire(limits)
    said(partition, 3, 9, ACCEPT)
    assert not partition.may_acquire(limits)
    said(partition, 0, 2, ACCEPT)
    assert partition.start_offset == 10
    exact = limits._replace(is_exact=True)
    assert acquired(partition, batches=[(10, 14), (15, 19)], limits=exact) == "10-16x1"


def test_neighbours_that_were_released_apart_are_one_range_again() -> None:
    partition = SharePartition(0)
    acquired(partition)
    said(partition, 0, 1, RELEASE)
    said(partition, 2, 4, RELEASE)
    assert acquired(partition, batches=[(0, 4)]) == "0-4x2"


def test_released_records_inside_a_full_window_can_be_acquired_again() -> None:
    limits = Limits(max_records=500, batch_size=500, max_in_flight=5)
    partition = SharePartition(0)
    acquired(partition, limits=limits)
    said(partition, 2, 3, RELEASE)
    assert partition.may_acquire(limits)
    assert acquired(partition, "b", limits=limits) == "2-3x2"


def test_redelivery_of_what_nobody_gets_done_shrinks_to_single_records() -> None:
    partition = SharePartition(0)
    found = []
    for _ in range(9):
        got = acquired(partition, batches=[(0, 7)])
        first, _, last = got.split("x")[0].partition("-")
        said(partition, int(first), int(last), RELEASE)
        found.append(got)
    assert found == ["0-7x1", "0-7x2", "0-7x3", "0-3x4", "0-0x5", "1-1x5", "2-2x5", "3-3x5", "4-7x4"]
    assert partition.start_offset == 4


def test_a_release_at_the_limit_archives() -> None:
    limits = Limits(max_records=500, batch_size=500, delivery_count_limit=2)
    partition = SharePartition(0)
    for _ in range(2):
        acquired(partition, batches=[(0, 0)], limits=limits)
        said(partition, 0, 0, RELEASE, limits=limits)
    assert partition.start_offset == 1


def test_each_record_may_have_its_own_type_and_the_start_moves_past_what_is_done() -> None:
    partition = SharePartition(0)
    acquired(partition)
    write = said(partition, 0, 4, ACCEPT, ACCEPT, RELEASE, REJECT, GAP)
    assert write is not None
    assert (write.start_offset, write.delivery_complete_count) == (0, 4)
    assert write.batches == (StateBatch(0, 1, 2, 1), StateBatch(2, 2, 0, 1), StateBatch(3, 4, 4, 1))
    assert partition.start_offset == 2
    assert states(partition) == "2-2:availablex1 3-4:archivedx1 5-14:acquiredx1"


def test_until_it_is_written_nothing_else_happens_to_a_record() -> None:
    partition = SharePartition(0)
    acquired(partition)
    write = partition.acknowledge("a", [Acknowledged(0, 4, [RELEASE])], LIMITS, 0)
    assert write is not None
    assert acquired(partition, "b") == ""
    assert refusal(partition, 0, 4, ACCEPT).startswith("INVALID_RECORD_STATE")
    assert partition.release_expired(LIMITS, 10**9) is not None  # the other ten
    write.settle(ErrorCode.NONE, 0)
    assert acquired(partition, "b", batches=[(0, 4)]) == "0-4x2"


def test_what_could_not_be_written_has_not_happened() -> None:
    partition = SharePartition(0)
    acquired(partition)
    said(partition, 0, 14, ACCEPT, error=ErrorCode.NOT_COORDINATOR)
    assert (partition.start_offset, states(partition)) == (0, "0-14:acquiredx1")
    said(partition, 0, 14, ACCEPT)
    assert partition.start_offset == 15


def test_a_range_may_not_begin_with_what_the_one_before_ended_with() -> None:
    partition = SharePartition(0)
    acquired(partition)
    ranges = [Acknowledged(0, 1, [ACCEPT]), Acknowledged(1, 2, [ACCEPT])]
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge("a", ranges, LIMITS, 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert states(partition) == "0-14:acquiredx1"


def test_several_ranges_hold_together_or_not_at_all() -> None:
    partition = SharePartition(0)
    acquired(partition)
    said(partition, 5, 5, ACCEPT)
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [Acknowledged(0, 1, [ACCEPT]), Acknowledged(5, 5, [ACCEPT])], LIMITS, 0)
    assert states(partition) == "0-4:acquiredx1 5-5:acknowledgedx1 6-14:acquiredx1"


def test_a_lock_that_ends_makes_records_available_and_renewal_keeps_them() -> None:
    partition = SharePartition(0)
    acquired(partition, now_ms=0)
    assert partition.next_deadline() == 30_000
    assert partition.acknowledge("a", [Acknowledged(0, 4, [RENEW])], LIMITS, 20_000) is None
    assert partition.next_deadline() == 30_000
    write = partition.release_expired(LIMITS, 30_000)
    assert write is not None
    assert write.batches == (StateBatch(5, 14, 0, 1),)
    write.settle(ErrorCode.NONE, 0)
    assert partition.next_deadline() == 50_000
    assert acquired(partition, "b") == "5-14x2"


def test_a_session_that_ends_releases_what_its_member_holds() -> None:
    partition = SharePartition(0)
    acquired(partition, "a", batches=[(0, 4)])
    acquired(partition, "b", batches=[(5, 9)])
    write = partition.release_all("a", LIMITS, 0)
    assert write is not None
    write.settle(ErrorCode.NONE, 0)
    assert partition.release_all("a", LIMITS, 0) is None
    assert states(partition) == "0-4:availablex1 5-9:acquiredx1"


def test_whoever_waits_is_told_of_a_start_that_moves_and_of_locks_that_end_but_not_of_a_release() -> None:
    told = []
    partition = SharePartition(0, on_available=lambda: told.append(partition.next_offset))
    acquired(partition)
    moved = []
    for first, last, type_ in ((5, 9, ACCEPT), (10, 14, RELEASE), (0, 1, ACCEPT)):
        write = partition.acknowledge("a", [Acknowledged(first, last, (type_,))], LIMITS, 0)
        assert write is not None
        moved.append(write.settle(ErrorCode.NONE, 0))
    assert moved == [False, False, True]
    assert told == []
    partition.release_expired(LIMITS, 30_000)
    assert told == [2]


def test_who_waits_gets_the_first_record_alone_of_a_batch_that_was_looked_at_one_by_one() -> None:
    got: list[str] = []

    def look_again() -> None:
        if len(got) < 2:
            got.append(acquired(partition, "b", [(0, 4)], 1))

    partition = SharePartition(0, on_available=look_again)
    acquired(partition, batches=[(0, 4)])
    said(partition, 0, 0, ACCEPT)
    got.clear()
    write = partition.release_expired(LIMITS, 30_000)
    assert got == ["1-1x2", "2-2x2"]
    assert write is not None
    assert write.batches == (StateBatch(1, 4, 0, 1),)
    assert states(partition) == "1-2:acquiredx2 3-4:availablex1"


def test_an_end_of_a_lock_holds_even_if_it_cannot_be_written() -> None:
    partition = SharePartition(0)
    acquired(partition)
    write = partition.release_expired(LIMITS, 30_000)
    assert write is not None
    write.settle(ErrorCode.NOT_COORDINATOR, 30_000)
    assert states(partition) == "0-14:availablex1"


def test_a_lock_that_ends_while_an_answer_cannot_be_written_ends_then() -> None:
    partition = SharePartition(0)
    acquired(partition)
    write = partition.acknowledge("a", [Acknowledged(0, 14, [ACCEPT])], LIMITS, 0)
    assert write is not None
    assert partition.release_expired(LIMITS, 30_000) is None
    write.settle(ErrorCode.NOT_COORDINATOR, 30_000)
    assert states(partition) == "0-14:availablex1"


def test_what_is_refused_and_with_which_sentence() -> None:
    partition = SharePartition(5)
    not_found = "Batch record not found. The"
    assert refusal(partition, 5, 6, ACCEPT) == (
        f"INVALID_RECORD_STATE {not_found} request batch offsets are not found in the cache."
    )
    acquired(partition, batches=[(5, 9)])
    assert refusal(partition, 10, 12, ACCEPT) == (
        f"INVALID_REQUEST {not_found} first offset in request is past acquired records."
    )
    assert refusal(partition, 5, 10, ACCEPT) == (
        f"INVALID_REQUEST {not_found} last offset in request is past acquired records."
    )
    assert refusal(partition, 5, 9, ACCEPT, member_id="b") == (
        "INVALID_RECORD_STATE Member is not the owner of batch record"
    )
    assert refusal(partition, 6, 7, ACCEPT, member_id="b") == (
        "INVALID_RECORD_STATE Member is not the owner of batch record"
    )
    said(partition, 9, 9, RELEASE)
    assert refusal(partition, 6, 7, ACCEPT, member_id="b") == "INVALID_RECORD_STATE Member is not the owner of offset"
    assert refusal(partition, 9, 9, ACCEPT) == (
        "INVALID_RECORD_STATE The offset cannot be acknowledged. The offset is not acquired."
    )
    assert refusal(partition, 5, 9, ACCEPT, ACCEPT, ACCEPT, ACCEPT, ACCEPT) == (
        "INVALID_RECORD_STATE The offset cannot be acknowledged. The offset is not acquired."
    )
    assert said(partition, 0, 4, ACCEPT) is None  # below the start


def test_a_batch_that_was_released_cannot_be_acknowledged() -> None:
    partition = SharePartition(0)
    acquired(partition, batches=[(0, 4)])
    said(partition, 0, 4, RELEASE)
    assert refusal(partition, 0, 1, ACCEPT) == (
        "INVALID_RECORD_STATE The batch cannot be acknowledged. The batch is not in the acquired state."
    )


def test_all_that_is_left_of_a_batch_is_delivered_again_together_however_few_are_asked_for() -> None:
    partition = SharePartition(0)
    acquired(partition)
    said(partition, 0, 1, ACCEPT)
    for first, last in ((2, 2), (5, 6), (8, 8), (12, 13)):
        said(partition, first, last, RELEASE)
    few = Limits(max_records=2, batch_size=2)
    assert acquired(partition, limits=few) == "2-2x2 5-6x2 8-8x2 12-13x2"


def test_a_range_that_begins_inside_a_record_batch_ends_with_it() -> None:
    partition = SharePartition(0)
    exact = Limits(max_records=3, batch_size=500, is_exact=True)
    assert [acquired(partition, limits=exact) for _ in range(4)] == ["0-2x1", "3-4x1 5-5x1", "6-8x1", "9-9x1 10-11x1"]


def test_what_was_read_goes_on_as_it_was() -> None:
    partition = SharePartition(
        3,
        [
            StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1),
            StateBatch(6, 7, RecordState.AVAILABLE, 2),
            StateBatch(8, 8, RecordState.ARCHIVING, 5),
        ],
    )
    assert (partition.start_offset, partition.end_offset, partition.next_offset) == (5, 8, 5)
    assert states(partition) == "6-7:availablex2 8-8:archivedx5"
    assert acquired(partition, batches=[(5, 9)]) == "5-5x1 6-7x3 9-9x1"


def test_records_that_are_deleted_from_the_log_are_in_flight_no_more() -> None:
    partition = SharePartition(0)
    acquired(partition)
    partition.log_begins(8)
    assert states(partition) == "8-14:acquiredx1"
    write = said(partition, 6, 9, RELEASE)
    assert write is not None
    assert write.batches == (StateBatch(8, 9, 0, 1),)
    partition.log_begins(40)
    assert (partition.start_offset, partition.end_offset, partition.next_offset) == (40, 40, 40)
    assert acquired(partition, batches=[(40, 41)]) == "40-41x1"


def test_offsets_that_do_not_exist_are_done_with() -> None:
    partition = SharePartition(0)
    acquired(partition, batches=[(0, 1)])
    assert acquired(partition, batches=[(5, 6)]) == "5-6x1"
    said(partition, 0, 1, ACCEPT)
    assert partition.start_offset == 5


def test_records_of_aborted_transactions_are_delivered_to_nobody() -> None:
    partition = SharePartition(0)
    acquired(partition)
    partition.archive(0, 4)
    assert partition.start_offset == 0  # until something is written
    partition.archive(8, 9)
    full = LIMITS._replace(max_in_flight=15)
    assert not partition.may_acquire(full)
    assert states(partition) == "0-4:archivedx1 5-7:acquiredx1 8-9:archivedx1 10-14:acquiredx1"
    partition.archive(5, 14)
    assert partition.may_acquire(full)  # the window was full of them: nobody would write anything any more
    assert partition.start_offset == 15


def test_what_was_left_out_of_the_states_that_were_read_is_passed_over_when_it_is_deleted() -> None:
    partition = SharePartition(2, [StateBatch(34, 34, RecordState.ACKNOWLEDGED, 1)])
    assert partition.next_offset == 2
    partition.log_begins(17)
    assert partition.next_offset == 17
    assert acquired(partition, batches=[(17, 40)]) == "17-33x1 35-40x1"


def test_a_type_for_each_of_many_records_before_the_start_and_in_many_batches_is_looked_at_once() -> None:
    partition = SharePartition(200_000)
    ones = [(offset, offset) for offset in range(200_000, 202_000)]
    acquired(partition, batches=ones, limits=Limits(max_records=2_000, batch_size=1))
    types = [ACCEPT, RELEASE] * 101_000
    write = said(partition, 0, 201_999, *types)
    assert write is not None
    assert len(write.batches) == 2_000
    assert partition.start_offset == 200_001


def test_records_that_are_accepted_one_by_one_leave_nothing_to_look_at_again() -> None:
    partition = SharePartition(0)
    acquired(partition, batches=[(0, 999)], limits=Limits(max_records=1_000, batch_size=1_000))
    for offset in range(900):
        said(partition, offset, offset, ACCEPT)
    assert partition.start_offset == 900
    assert len(list(partition.runs)) == 2


def test_many_records_that_were_delivered_too_often_end_together() -> None:
    limits = Limits(max_records=50_000, batch_size=50_000, delivery_count_limit=1)
    partition = SharePartition(0)
    acquired(partition, batches=[(0, 49_999)], limits=limits)
    said(partition, 0, 0, ACCEPT, limits=limits)
    write = partition.release_expired(limits, 30_000)
    assert write is not None
    assert write.batches == (StateBatch(1, 49_999, 4, 1),)
    write.settle(ErrorCode.NONE, 30_000)
    assert partition.start_offset == 50_000


def test_deleted_records_that_come_with_a_batch_are_not_asked_for_again() -> None:
    partition = SharePartition(0)
    acquired(partition, batches=[(0, 1)])
    partition.log_begins(24)
    exact = Limits(max_records=20, batch_size=1, is_exact=True)
    assert acquired(partition, batches=[(3, 42)], limits=exact) == "3-22x1"
    assert partition.next_offset == 23
    partition.log_begins(24)
    assert partition.next_offset == 24
