"""A rebalance of a group of any type: why it began, who was in it, who was removed, why a phase ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kshim.coordinator.groups.events import MemberRef
from kshim.history.json_parts import BOOL, limited, member, names, quoted, text


class Arrival(NamedTuple):
    """When one member's Join or Sync came: `wait_ms` after its phase began. `is_new`: it entered in this rebalance."""

    member: MemberRef
    is_new: bool
    wait_ms: int


class Kicked(NamedTuple):
    """A member the coordinator removed in a rebalance, or an id it waited for in vain (`was_pending`)."""

    member: MemberRef
    reason: str
    was_pending: bool


class Ending(NamedTuple):
    """Why a phase came to its end."""

    reason: str
    text: str
    member_id: str | None


class About(NamedTuple):
    """What an event is about: the group and its type (`classic` or `consumer`), the epoch it is in, the cause and the member behind it."""

    group_id: str
    protocol_type: str | None
    group_type: str
    epoch: int
    from_generation: int
    reason: str
    reason_text: str
    trigger: MemberRef | None


@dataclass(kw_only=True, eq=False, slots=True)
class Why:
    """What one event is about, or all events of a rebalance, which share their JSON."""

    about: About
    _head_json: tuple[str, str] | None = field(default=None, init=False, repr=False)

    def head_json(self) -> tuple[str, str]:
        """Two parts of an event: from `group` to `from_generation`, from `reason` to `trigger`; made once."""
        if self._head_json is None:
            about = self.about
            self._head_json = (
                f'"group":{quoted(about.group_id)},"protocol_type":{text(about.protocol_type)},'
                f'"group_type":"{about.group_type}","epoch":{about.epoch},'
                f'"from_generation":{about.from_generation}',
                f'"reason":"{about.reason}","reason_text":{quoted(about.reason_text)},"trigger":{member(about.trigger)}',
            )
        return self._head_json


@dataclass(kw_only=True, eq=False, slots=True)
class Course(Why):
    """One rebalance of a group of any type: why it began, and who was in it.

    `expected` and `pending_sync` change while it is open, `kicked` grows; the rest is set once. `size_bytes` is the memory of
    what it lists, once the end is known.
    """

    started_ms: int
    expected: int
    kicked: list[Kicked] = field(default_factory=list, init=False)
    to_generation: int | None = None
    protocol: str | None = field(default=None, init=False)
    pending_sync: int | None = field(default=None, init=False)
    size_bytes: int = field(default=0, init=False)

    def close(self) -> None:
        """Nothing more comes: work out `size_bytes`."""
        self.size_bytes = self._listed_bytes()

    def _listed_bytes(self) -> int:
        return sum([600 + 2 * len(each.member.member_id) for each in self.kicked])


def arrival_json(arrival: Arrival | None) -> str:
    """An arrival as an object, or null."""
    return "null" if arrival is None else entries_json([arrival.member], [arrival.is_new], [arrival.wait_ms], {})[0]


def entries_json(
    members: Sequence[MemberRef], is_new: Sequence[int], wait_ms: Sequence[int], told_ms: Mapping[str, int]
) -> list[str]:
    """Arrivals as objects, from columns, and when each was told of the rebalance, by id."""
    try:
        if not told_ms:
            return [
                f'{{{member.rendered},"is_new":{BOOL[new]},"wait_ms":{ms},"told_ms":null}}'  # type: ignore[attr-defined]
                for member, new, ms in zip(members, is_new, wait_ms, strict=True)
            ]
        return [
            f'{{{member.rendered},"is_new":{BOOL[new]},"wait_ms":{ms},'  # type: ignore[attr-defined]
            f'"told_ms":{told_ms.get(member.member_id, "null")}}}'
            for member, new, ms in zip(members, is_new, wait_ms, strict=True)
        ]
    except AttributeError:
        for each in members:
            names(each)
        return entries_json(members, is_new, wait_ms, told_ms)


def kicked_json(kicked: Sequence[Kicked]) -> str:
    """`kicked` and `kicked_omitted`."""
    if not kicked:
        return '"kicked":[],"kicked_omitted":0'
    entries = [
        f'{{{names(member)},"reason":"{reason}","was_pending":{BOOL[was_pending]}}}'
        for member, reason, was_pending in kicked
    ]
    return limited("kicked", entries)


def ending_json(ending: Ending | None) -> str:
    """An ending as an object, or null."""
    if ending is None:
        return "null"
    return f'{{"reason":"{ending.reason}","text":{quoted(ending.text)},"member_id":{text(ending.member_id)}}}'
