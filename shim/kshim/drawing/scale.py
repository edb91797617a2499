"""From times to places: linear where something happens, and time in which nothing does is cut to a narrow column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

CUT_WIDTH = 44.0
"""Of time that is cut out, where a scale is not so narrow that it takes less."""
_QUIET_SHARE = 4
"""Time without events is cut if it is longer than this part of the time with some."""
_LEAST_QUIET_MS = 1_000
_MARGIN_SHARE = 40
_LEAST_MARGIN_MS = 25


class Piece(NamedTuple):
    """A part of the scale, in which time is linear."""

    from_ms: int
    to_ms: int
    left: float
    width: float
    is_cut: bool

    def place(self, at_ms: int) -> float:
        """Where a time of this piece is."""
        return self.left + (at_ms - self.from_ms) / max(self.to_ms - self.from_ms, 1) * self.width


class Scale:
    """Times from `from_ms` to `to_ms` on `width` from `left` on. `active`: when something happens, from and to."""

    def __init__(
        self,
        active: Iterable[tuple[int, int]],
        from_ms: int,
        to_ms: int,
        *,
        left: float,
        width: float,
        most_cut: float = CUT_WIDTH,
    ) -> None:
        to_ms = max(to_ms, from_ms + 1)
        spans = sorted(
            (max(begin, from_ms), min(end, to_ms)) for begin, end in active if end >= from_ms and begin <= to_ms
        )
        margin_ms = max(sum(end - begin for begin, end in _merged(spans)) // _MARGIN_SHARE, _LEAST_MARGIN_MS)
        busy = _merged((max(begin - margin_ms, from_ms), min(end + margin_ms, to_ms)) for begin, end in spans)
        quiet_ms = max(sum(end - begin for begin, end in busy) // _QUIET_SHARE, _LEAST_QUIET_MS)
        parts: list[tuple[int, int, bool]] = []
        at_ms = from_ms
        for begin, end in [*busy, (to_ms, to_ms)]:
            if begin - at_ms > quiet_ms and busy:
                parts.append((at_ms, begin, True))
                at_ms = begin
            if parts and not parts[-1][2]:
                at_ms = parts.pop()[0]
            if end > at_ms:
                parts.append((at_ms, end, False))
            at_ms = end
        cuts = sum(is_cut for _, _, is_cut in parts)
        cut_width = min(most_cut, width / 2 / max(cuts, 1))
        linear_ms = sum(end - begin for begin, end, is_cut in parts if not is_cut)
        per_ms = (width - cuts * cut_width) / max(linear_ms, 1)
        self.pieces: list[Piece] = []
        for begin, end, is_cut in parts:
            size = cut_width if is_cut else (end - begin) * per_ms
            self.pieces.append(Piece(begin, end, left, size, is_cut))
            left += size
        self._begins = [piece.from_ms for piece in self.pieces]

    def x(self, at_ms: int) -> float:
        """The place of a time; of one before or after, that of the beginning or the end."""
        place = max(bisect_right(self._begins, at_ms) - 1, 0)
        piece = self.pieces[place]
        return piece.place(min(max(at_ms, piece.from_ms), piece.to_ms))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order of their beginnings, those that touch as one.

    >>> _merged([(0, 2), (1, 3), (5, 6)])
    [(0, 3), (5, 6)]
    """
    found: list[tuple[int, int]] = []
    for begin, end in spans:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
