"""Where leader epochs begin and end, as Kafka's LeaderEpochFileCache says it."""

from __future__ import annotations

import pytest

from kshim.partitions.leader_epochs import Epochs, begun, end_of_epoch, epoch_at

THREE: Epochs = ((0, 0), (2, 10), (5, 25))


def test_an_epoch_begins_where_the_log_ends() -> None:
    assert begun(begun((), 2, 10), 5, 25) == THREE


def test_an_epoch_in_which_nothing_was_written_is_forgotten() -> None:
    assert begun(begun((), 1, 10), 2, 10) == ((0, 0), (2, 10))
    assert begun((), 1, 0) == ((1, 0),)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (9, 0), (10, 2), (24, 2), (25, 5), (1_000, 5)])
def test_a_record_is_of_the_last_epoch_that_had_begun(offset: int, epoch: int) -> None:
    assert epoch_at(THREE, offset) == epoch
    assert epoch_at((), offset) == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (0, (0, 10)),
        (1, (0, 10)),  # there was none: the one before
        (2, (2, 25)),
        (4, (2, 25)),
        (5, (5, 40)),
        (6, (-1, -1)),
        (-1, (-1, -1)),
        (-2, (-2, 3)),  # before the first
    ],
)
def test_an_epoch_ends_where_the_next_begins_and_the_newest_at_the_end(asked: int, told: tuple[int, int]) -> None:
    assert end_of_epoch(THREE, asked, start_offset=3, end_offset=40) == told


def test_what_was_deleted_has_no_epoch() -> None:
    assert end_of_epoch(THREE, 0, start_offset=12, end_offset=40) == (0, 12)
    assert end_of_epoch(THREE, 2, start_offset=12, end_offset=40) == (2, 25)
    assert end_of_epoch(THREE, 2, start_offset=40, end_offset=40) == (2, 40)
    assert end_of_epoch(THREE, 5, start_offset=40, end_offset=40) == (5, 40)
