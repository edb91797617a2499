"""What is drawn, as values. Times are ms since 1970."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kshim.drawing.vocabulary import BarKind, MarkKind

_CALM = (BarKind.MEMBER, BarKind.OWNED)


class Bar(NamedTuple):
    """Something that lasts; `to_ms` None: it goes on."""

    kind: BarKind
    from_ms: int
    to_ms: int | None
    text: str = ""


class Mark(NamedTuple):
    """Something of a moment."""

    kind: MarkKind
    at_ms: int
    text: str = ""


class Lane(NamedTuple):
    """A member or a partition. `note` stands at its end, and `note_ms`, a time, behind it; `owner` beside its name: who has a partition at the end of the picture."""

    name: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""
    is_culprit: bool = False
    owner: str = ""
    note_ms: int | None = None


class Band(NamedTuple):
    """A rebalance, behind all lanes; `to_ms` None: it is open. `label` says what it was, and `href` leads to more, as it stands
    in an attribute; empty: there is no more."""

    number: int
    from_ms: int
    to_ms: int | None
    label: str
    href: str
    is_chosen: bool = False


class Picture(NamedTuple):
    """One group. `to_ms` is when it was looked at; `focus` is from when to when the incident lasted that the words beside the
    picture are about: trouble at other times is drawn paler."""

    from_ms: int
    to_ms: int
    members: tuple[Lane, ...] = ()
    partitions: tuple[Lane, ...] = ()
    bands: tuple[Band, ...] = ()
    members_omitted: int = 0
    partitions_omitted: int = 0
    focus: tuple[int, int] | None = None

    def is_aside(self, from_ms: int, to_ms: int | None) -> bool:
        """Whether something was over before the focus, or began after it."""
        if self.focus is None:
            return False
        return from_ms > self.focus[1] or (to_ms is not None and to_ms < self.focus[0])

    def active(self) -> Iterator[tuple[int, int]]:
        """When something happens, from and to: not while members only are members, and partitions only have owners."""
        for band in self.bands:
            yield band.from_ms, self.to_ms if band.to_ms is None else band.to_ms
        for lane in (*self.members, *self.partitions):
            for bar in lane.bars:
                if bar.kind not in _CALM:
                    yield bar.from_ms, self.to_ms if bar.to_ms is None else bar.to_ms
            for mark in lane.marks:
                if mark.kind is not MarkKind.COMMITTED:
                    yield mark.at_ms, mark.at_ms
