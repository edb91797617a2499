"""Batches of states laid over each other: as if every record had been written down by itself."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.share_state.share_state import Batch, combined

batches = st.lists(
    st.builds(
        lambda first, size, state, count: Batch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 2, 4]),
        st.integers(0, 5),
    ),
    max_size=12,
)


def one_by_one(found: list[Batch] | tuple[Batch, ...], start_offset: int) -> dict[int, tuple[int, int]]:
    """(count, state) of each record."""
    records: dict[int, tuple[int, int]] = {}
    for batch in found:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            said = (batch.delivery_count, batch.delivery_state)
            records[offset] = max(records.get(offset, said), said)
    return records


@given(batches, st.integers(-1, 40))
def test_every_record_has_the_state_of_its_highest_count(found: list[Batch], start_offset: int) -> None:
    result = combined(found, start_offset)
    assert one_by_one(result, -1) == one_by_one(found, start_offset)


@given(batches, st.integers(-1, 40))
def test_the_result_is_in_order_without_overlap_and_as_short_as_can_be(found: list[Batch], start_offset: int) -> None:
    result = combined(found, start_offset)
    for one, other in pairwise(result):
        assert one.first_offset <= one.last_offset < other.first_offset
        assert one.last_offset + 1 < other.first_offset or one[2:] != other[2:]
    assert combined(result, start_offset) == result


def test_what_a_live_kafka_answered_after_the_same_writes() -> None:
    writes = [
        Batch(0, 9, 0, 1),
        Batch(0, 0, 2, 1),
        Batch(2, 5, 0, 2),
        Batch(4, 12, 0, 1),
        Batch(3, 3, 4, 2),
        Batch(13, 13, 0, 1),
        Batch(14, 15, 2, 1),
    ]
    assert combined(writes, 4) == (Batch(4, 5, 0, 2), Batch(6, 13, 0, 1), Batch(14, 15, 2, 1))


def test_batches_that_share_one_offset_are_laid_over_each_other() -> None:
    assert combined([Batch(0, 5, 0, 1), Batch(5, 9, 0, 2)], 0) == (Batch(0, 4, 0, 1), Batch(5, 9, 0, 2))


def test_a_batch_that_ends_before_it_begins_is_no_batch() -> None:
    assert combined([Batch(5, 4, 0, 1)], 0) == ()
    assert combined([Batch(5, 4, 0, 1), Batch(6, 7, 0, 1)], 0) == (Batch(6, 7, 0, 1),)
