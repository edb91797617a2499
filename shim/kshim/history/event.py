"""One event of the history, kept as an object; its JSON is built when it is read.

The page `docs/design/events.md` says what each field means. The events of a rebalance share what is the same in all of
them, so that an event costs little until it is read, and its JSON not much more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.events import Arrivals, MemberRef
from kshim.coordinator.step import Now
from kshim.history.activity import Activity, activity_json

try:  # the rest of `json` takes longer to import than the history
    from _json import encode_basestring as _quoted
except ImportError:
    from json.encoder import encode_basestring as _quoted


EVENT_VERSION: Final = 1
LIST_MAX_BYTES: Final = 400_000
"""About how much `waits`, and `kicked`, may take of an event's JSON; records of 1 MB are the usual limit of topics."""

_BOOL: Final = ("false", "true")


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


class Why:
    """What an event is about: the group, the epoch it is in, the cause and the member behind it."""

    def __init__(
        self,
        group_id: str,
        protocol_type: str | None,
        epoch: int,
        from_generation: int,
        reason: str,
        reason_text: str,
        trigger: MemberRef | None,
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.epoch = epoch
        self.from_generation = from_generation
        self.reason = reason
        self.reason_text = reason_text
        self.trigger = trigger
        self._head_json: tuple[str, str] | None = None

    def head_json(self) -> tuple[str, str]:
        """Two parts of an event: from `group` to `from_generation`, from `reason` to `trigger`; made once."""
        if self._head_json is None:
            self._head_json = (
                f'"group":{_quoted(self.group_id)},"protocol_type":{_text(self.protocol_type)},"epoch":{self.epoch},'
                f'"from_generation":{self.from_generation}',
                f'"reason":"{self.reason}","reason_text":{_quoted(self.reason_text)},"trigger":{_member(self.trigger)}',
            )
        return self._head_json


class Timeline(Why):
    """One rebalance: why it began and how it went. What is None is not known before the join phase has ended.

    `expected` and `pending_sync` change while it is open, `kicked` grows; the rest is set once.
    """

    def __init__(
        self,
        group_id: str,
        protocol_type: str | None,
        epoch: int,
        from_generation: int,
        ending_of_last: Ending,
        trigger: MemberRef | None,
        started_ms: int,
        expected: int,
        initial_delay_ms: int | None,
    ) -> None:
        super().__init__(
            group_id, protocol_type, epoch, from_generation, ending_of_last.reason, ending_of_last.text, trigger
        )
        self.started_ms = started_ms
        self.expected = expected
        self.initial_delay_ms = initial_delay_ms
        self.kicked: list[Kicked] = []
        self.ending: Ending | None = None
        self.to_generation: int | None = None
        self.joined_ms = 0
        self.join_ms: int | None = None
        self.arrivals: Arrivals | None = None
        self.last_to_join: Arrival | None = None
        self.leader_id: str | None = None
        self.protocol: str | None = None
        self.pending_sync: int | None = None
        self.size_bytes = 0
        """Memory of `arrivals` and `kicked`, once the end is known."""
        self._joined_json: tuple[str, str, str] | None = None

    def close(self) -> None:
        """Nothing more comes: work out `size_bytes`."""
        size_bytes = 0
        arrivals = self.arrivals
        if arrivals is not None:
            size_bytes = 60 * len(arrivals.members)
            if 1 in arrivals.is_new:  # the names of the others are those of earlier rebalances
                newcomers = [member for member, is_new in zip(*arrivals[::2], strict=True) if is_new]
                size_bytes += sum([600 + 2 * (len(each.member_id) + len(each.client_id)) for each in newcomers])
        if self.kicked:
            size_bytes += sum([600 + 2 * len(kicked.member.member_id) for kicked in self.kicked])
        self.size_bytes = size_bytes

    def joined_json(self) -> tuple[str, str, str]:
        """What the events after the join phase have in common: leader, last member to join, delay and protocol."""
        if self._joined_json is None:
            self._joined_json = (
                f'"leader_id":{_text(self.leader_id)},"members":{{"expected":{self.expected},'
                f'"joined":{"null" if self.arrivals is None else len(self.arrivals.members)}',
                f'"last_to_join":{_last(self.last_to_join)}',
                f'"initial_delay_ms":{_number(self.initial_delay_ms)},"protocol":{_text(self.protocol)}',
            )
        return self._joined_json


class HistoryEvent(NamedTuple):
    """One event. `number` counts the events of a `run`, `seq` those of the group in it.

    `expected` None: no counts of members.
    """

    type: str
    run: str
    number: int
    seq: int
    now: Now
    broker: int
    why: Why
    state_from: str | None
    state_to: str
    to_generation: int | None = None
    expected: int | None = None
    kicked_count: int = 0
    pending_sync: int | None = None
    sync_ms: int | None = None
    last_to_sync: Arrival | None = None
    outcome: str | None = None
    ended_by: Ending | None = None
    replaced_member_id: str | None = None
    injected_fault: str | None = None
    activity: Activity | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds, with what it shares with its neighbours."""
        size_bytes = 900 + 2 * len(self.why.reason_text)
        return size_bytes + self.why.size_bytes if self.outcome and isinstance(self.why, Timeline) else size_bytes

    @property
    def group_id(self) -> str:
        """Whose event it is."""
        return self.why.group_id

    def __repr__(self) -> str:
        return f"<{self.type} {self.group_id} seq={self.seq} epoch={self.why.epoch} {self.why.reason}>"

    def document(self) -> dict[str, Any]:
        """The event as JSON values."""
        import json

        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_json(self) -> bytes:
        """The event as a JSON object in UTF-8."""
        # By hand, for a dict through `json` takes five times as long.
        group_json, cause_json = self.why.head_json()
        state_from = "null" if self.state_from is None else f'"{self.state_from}"'
        replaced = "null" if self.replaced_member_id is None else _quoted(self.replaced_member_id)
        text = (
            f'{{"v":{EVENT_VERSION},"event_id":"{self.run}-{self.number}","run":"{self.run}","seq":{self.seq},'
            f'"ts_ms":{self.now.wall_ms},"mono_ms":{self.now.mono_ms},"broker":{self.broker},{group_json},'
            f'"to_generation":{_number(self.to_generation)},"type":"{self.type}","state_from":{state_from},'
            f'"state_to":"{self.state_to}",{cause_json},"replaced_member_id":{replaced},'
            f'{self._timeline_json()},"activity":{activity_json(self.activity)},'
            f'"injected_fault":{_text(self.injected_fault)}}}'
        )
        return text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes \udxxx, which JSON knows, too

    def _timeline_json(self) -> str:
        """From `leader_id` to `ended_by`."""
        timeline = self.why
        if not isinstance(timeline, Timeline):
            return _without_timeline(self.expected, None)
        if self.type == "rebalance_started":  # what came later is none of its business
            return _without_timeline(self.expected, timeline.initial_delay_ms)
        waits, kicked = '"waits":null,"waits_omitted":0', '"kicked":null,"kicked_omitted":0'
        if self.outcome is not None:
            waits, kicked = _waits(timeline), _kicked(timeline.kicked[: self.kicked_count])
        elif self.type == "join_completed":
            kicked = _kicked(timeline.kicked[: self.kicked_count])
        leader_and_joined, last_to_join, delay_and_protocol = timeline.joined_json()
        join_ms, sync_ms = timeline.join_ms or 0, self.sync_ms
        return (
            f'{leader_and_joined},"kicked":{self.kicked_count},"pending_sync":{_number(self.pending_sync)}}},'
            f'"join_ms":{join_ms},"sync_ms":{_number(sync_ms)},"total_ms":{join_ms + (sync_ms or 0)},{last_to_join},'
            f'"last_to_sync":{_last(self.last_to_sync)},{waits},{kicked},{delay_and_protocol},'
            f'"outcome":{_text(self.outcome)},"ended_by":{_ending(self.ended_by)}'
        )


def _without_timeline(expected: int | None, initial_delay_ms: int | None) -> str:
    members = "null"
    if expected is not None:
        members = f'{{"expected":{expected},"joined":null,"kicked":0,"pending_sync":null}}'
    return (
        f'"leader_id":null,"members":{members},"join_ms":null,"sync_ms":null,"total_ms":null,"last_to_join":null,'
        '"last_to_sync":null,"waits":null,"waits_omitted":0,"kicked":null,"kicked_omitted":0,'
        f'"initial_delay_ms":{_number(initial_delay_ms)},"protocol":null,"outcome":null,"ended_by":null'
    )


def _text(value: str | None) -> str:
    return "null" if value is None else _quoted(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _member(member: MemberRef | None) -> str:
    if member is None:
        return "null"
    return f'{{{_names(member)},"client_reason":{_text(member.client_reason)}}}'


def _names(member: MemberRef) -> str:
    """A member; cached, because the same ones occur again and again."""
    try:
        return member.rendered  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        rendered = (
            f'"member_id":{_quoted(member.member_id)},"instance_id":{_text(member.group_instance_id)},'
            f'"client_id":{_quoted(member.client_id)},"host":{_quoted(member.client_host.removeprefix("/"))}'
        )
        member.rendered = rendered  # type: ignore[attr-defined]
        return rendered


def _last(arrival: Arrival | None) -> str:
    return "null" if arrival is None else _entries([arrival.member], [arrival.is_new], [arrival.wait_ms])[0]


def _entries(members: Sequence[MemberRef], is_new: Sequence[int], wait_ms: Sequence[int]) -> list[str]:
    try:
        return [
            f'{{{member.rendered},"is_new":{_BOOL[new]},"wait_ms":{ms}}}'  # type: ignore[attr-defined]
            for member, new, ms in zip(members, is_new, wait_ms, strict=True)
        ]
    except AttributeError:
        for member in members:
            _names(member)
        return _entries(members, is_new, wait_ms)


def _waits(timeline: Timeline) -> str:
    """`waits` and `waits_omitted`."""
    arrivals = timeline.arrivals
    if arrivals is None:
        return '"waits":null,"waits_omitted":0'
    entries = _entries(arrivals.members, arrivals.is_new, arrivals.wait_ms)
    kept = entries
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        slowest = sorted(range(len(entries)), key=lambda index: -arrivals.wait_ms[index])
        kept = [entries[index] for index in sorted(_fitting(entries, slowest))]
    return f'"waits":[{",".join(kept)}],"waits_omitted":{len(entries) - len(kept)}'


def _kicked(kicked: Sequence[Kicked]) -> str:
    """`kicked` and `kicked_omitted`."""
    if not kicked:
        return '"kicked":[],"kicked_omitted":0'
    entries = [
        f'{{{_names(member)},"reason":"{reason}","was_pending":{"true" if was_pending else "false"}}}'
        for member, reason, was_pending in kicked
    ]
    kept = entries
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        kept = [entries[index] for index in _fitting(entries, range(len(entries)))]
    return f'"kicked":[{",".join(kept)}],"kicked_omitted":{len(entries) - len(kept)}'


def _fitting(entries: Sequence[str], order: Sequence[int]) -> list[int]:
    """Indexes of the entries that fit, taken in `order`."""
    left = LIST_MAX_BYTES
    fitting: list[int] = []
    for index in order:
        left -= len(entries[index])
        if left < 0:
            break
        fitting.append(index)
    return fitting


def _ending(ending: Ending | None) -> str:
    if ending is None:
        return "null"
    return f'{{"reason":"{ending.reason}","text":{_quoted(ending.text)},"member_id":{_text(ending.member_id)}}}'
