"""The scale of pictures: linear where something happens, cut where nothing does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshim.drawing.scale import CUT_WIDTH, Scale

HOUR = 3_600_000
SPANS = st.lists(
    st.tuples(st.integers(0, HOUR), st.integers(0, 60_000)).map(lambda span: (span[0], sum(span))), max_size=30
)


def test_time_in_which_something_happens_is_linear() -> None:
    scale = Scale([(0, 1_000)], 0, 1_000, left=100, width=500)
    assert [scale.x(at_ms) for at_ms in (0, 250, 1_000)] == [100, 225, 600]


def test_an_hour_of_quiet_between_two_seconds_is_a_narrow_column() -> None:
    scale = Scale([(0, 1_000), (HOUR, HOUR + 1_000)], 0, HOUR + 1_000, left=0, width=1_000)
    assert [piece.is_cut for piece in scale.pieces] == [False, True, False]
    assert scale.pieces[1].width == CUT_WIDTH
    assert scale.x(HOUR + 1_000) - scale.x(HOUR) > 400


def test_a_rebalance_of_an_hour_is_not_cut() -> None:
    assert [piece.is_cut for piece in Scale([(0, HOUR)], 0, HOUR, left=0, width=1_000).pieces] == [False]


def test_times_outside_are_at_the_ends() -> None:
    scale = Scale([(10, 20)], 0, 100, left=0, width=100)
    assert (scale.x(-5), scale.x(500)) == (0, 100)


@given(SPANS, st.integers(0, HOUR), st.integers(1, 2 * HOUR))
def test_later_is_never_further_left_and_all_is_on_the_scale(
    spans: list[tuple[int, int]], from_ms: int, length_ms: int
) -> None:
    scale = Scale(spans, from_ms, from_ms + length_ms, left=50, width=700)
    assert scale.pieces[0].left == 50
    assert abs(scale.pieces[-1].left + scale.pieces[-1].width - 750) < 0.01
    assert [before.to_ms for before in scale.pieces[:-1]] == [piece.from_ms for piece in scale.pieces[1:]]
    times = sorted({from_ms, from_ms + length_ms, *(at_ms for span in spans for at_ms in span)})
    places = [scale.x(at_ms) for at_ms in times]
    assert all(50 - 0.01 <= place <= 750.01 for place in places)
    assert all(before <= after + 0.01 for before, after in pairwise(places))
