"""What is drawn, as values. Times are ms since 1970."""

from __future__ import annotations

from typing import NamedTuple

from kshim.drawing.vocabulary import BarKind, MarkKind


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
    """A member or a partition. `note` stands at its end; `owner` beside its name: who has a partition at the end of the picture."""

    name: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""
    is_culprit: bool = False
    owner: str = ""


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
    """One group. `to_ms` is when it was looked at."""

    from_ms: int
    to_ms: int
    members: tuple[Lane, ...] = ()
    partitions: tuple[Lane, ...] = ()
    bands: tuple[Band, ...] = ()
    members_omitted: int = 0
    partitions_omitted: int = 0
