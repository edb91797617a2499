"""One event of the history, kept as it was made; its JSON is built when somebody reads it.

The page `docs/design/events.md` says what each field means.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring as _quoted
from typing import Any, Final, NamedTuple

from kshim.coordinator.events import Arrival, MemberRef
from kshim.coordinator.step import Now

__all__ = ["EVENT_VERSION", "Ending", "HistoryEvent", "Kicked", "Phases"]

EVENT_VERSION: Final = 1
LIST_MAX_BYTES: Final = 400_000
"""About how much `waits`, and `kicked`, may take of an event's JSON; records of 1 MB are the usual limit of topics."""


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


class Phases(NamedTuple):
    """What an event of a rebalance says of its course so far. Times in ms, None where not known yet."""

    expected: int
    joined: int | None
    kicked_count: int
    pending_sync: int | None
    initial_delay_ms: int | None = None
    leader_id: str | None = None
    protocol: str | None = None
    join_ms: int | None = None
    sync_ms: int | None = None
    last_to_join: Arrival | None = None
    last_to_sync: Arrival | None = None
    waits: tuple[Arrival, ...] | None = None
    kicked: tuple[Kicked, ...] | None = None
    outcome: str | None = None
    ended_by: Ending | None = None


_NO_PHASES: Final = Phases(0, None, 0, None)


class HistoryEvent:
    """One event, immutable by convention. `number` counts the events of a `run`, `seq` those of the group in it.

    `injected_fault` names the fault that kshim injected itself, None: none. `size_bytes` is about how much memory it
    holds, with what it may share with its neighbours.
    """

    __slots__ = (
        "broker",
        "epoch",
        "from_generation",
        "group_id",
        "injected_fault",
        "now",
        "number",
        "phases",
        "protocol_type",
        "reason",
        "reason_text",
        "replaced_member_id",
        "run",
        "seq",
        "size_bytes",
        "state_from",
        "state_to",
        "to_generation",
        "trigger",
        "type",
    )

    def __init__(
        self,
        type_: str,
        run: str,
        number: int,
        seq: int,
        now: Now,
        broker: int,
        group_id: str,
        protocol_type: str | None,
        epoch: int,
        from_generation: int,
        to_generation: int | None,
        state_from: str | None,
        state_to: str,
        reason: str,
        reason_text: str,
        trigger: MemberRef | None,
        phases: Phases | None = None,
        replaced_member_id: str | None = None,
    ) -> None:
        self.type = type_
        self.run = run
        self.number = number
        self.seq = seq
        self.now = now
        self.broker = broker
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.epoch = epoch
        self.from_generation = from_generation
        self.to_generation = to_generation
        self.state_from = state_from
        self.state_to = state_to
        self.reason = reason
        self.reason_text = reason_text
        self.trigger = trigger
        self.phases = phases
        self.replaced_member_id = replaced_member_id
        self.injected_fault: str | None = None
        self.size_bytes = 700 + len(reason_text) + (0 if phases is None else _list_bytes(phases))

    def __repr__(self) -> str:
        return f"<{self.type} {self.group_id} seq={self.seq} epoch={self.epoch} {self.reason}>"

    def document(self) -> dict[str, Any]:
        """The event as JSON values."""
        import json

        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_json(self) -> bytes:
        """The event as a JSON object in UTF-8."""
        # A string by hand takes a fifth of what a dict through `json` does, and a group's rebalance has five events.
        phases = self.phases
        members, rest = ("null", _NO_PHASES) if phases is None else (_counts(phases), phases)
        join_ms, sync_ms = rest.join_ms, rest.sync_ms
        total_ms = None if join_ms is None else join_ms + (sync_ms or 0)
        waits, waits_omitted = _waits(rest.waits)
        kicked, kicked_omitted = _kicked(rest.kicked)
        text = (
            f'{{"v":{EVENT_VERSION},"event_id":"{self.run}-{self.number}","run":"{self.run}","seq":{self.seq},'
            f'"ts_ms":{self.now.wall_ms},"mono_ms":{self.now.mono_ms},"broker":{self.broker},'
            f'"group":{_quoted(self.group_id)},"protocol_type":{_text(self.protocol_type)},"epoch":{self.epoch},'
            f'"from_generation":{self.from_generation},"to_generation":{_number(self.to_generation)},'
            f'"type":"{self.type}","state_from":{_text(self.state_from)},"state_to":"{self.state_to}",'
            f'"reason":"{self.reason}","reason_text":{_quoted(self.reason_text)},"trigger":{_member(self.trigger)},'
            f'"replaced_member_id":{_text(self.replaced_member_id)},"leader_id":{_text(rest.leader_id)},'
            f'"members":{members},"join_ms":{_number(join_ms)},"sync_ms":{_number(sync_ms)},'
            f'"total_ms":{_number(total_ms)},"last_to_join":{_last(rest.last_to_join)},'
            f'"last_to_sync":{_last(rest.last_to_sync)},"waits":{waits},"waits_omitted":{waits_omitted},'
            f'"kicked":{kicked},"kicked_omitted":{kicked_omitted},'
            f'"initial_delay_ms":{_number(rest.initial_delay_ms)},"protocol":{_text(rest.protocol)},'
            f'"outcome":{_text(rest.outcome)},"ended_by":{_ending(rest.ended_by)},'
            f'"injected_fault":{_text(self.injected_fault)}}}'
        )
        return text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes \udxxx, which JSON knows, too


def _list_bytes(phases: Phases) -> int:
    size_bytes = 0
    if phases.waits:
        size_bytes += sum([250 + len(wait.member_id) + len(wait.client_id) for wait in phases.waits])
    if phases.kicked:
        size_bytes += sum([400 + 2 * len(kicked.member.member_id) for kicked in phases.kicked])
    return size_bytes


def _text(value: str | None) -> str:
    return "null" if value is None else _quoted(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _member(member: MemberRef | None) -> str:
    if member is None:
        return "null"
    return (
        f'{{"member_id":{_quoted(member.member_id)},"instance_id":{_text(member.group_instance_id)},'
        f'"client_id":{_quoted(member.client_id)},"host":{_host(member.client_host)},'
        f'"client_reason":{_text(member.client_reason)}}}'
    )


def _host(client_host: str) -> str:
    return _quoted(client_host[1:] if client_host[:1] == "/" else client_host)


def _counts(phases: Phases) -> str:
    return (
        f'{{"expected":{phases.expected},"joined":{_number(phases.joined)},"kicked":{phases.kicked_count},'
        f'"pending_sync":{_number(phases.pending_sync)}}}'
    )


def _last(arrival: Arrival | None) -> str:
    return "null" if arrival is None else _wait(arrival)


def _wait(arrival: Arrival) -> str:
    member_id, instance_id, client_id, client_host, is_new, wait_ms = arrival
    return (
        f'{{"member_id":{_quoted(member_id)},"instance_id":{_text(instance_id)},"client_id":{_quoted(client_id)},'
        f'"host":{_host(client_host)},"is_new":{"true" if is_new else "false"},"wait_ms":{wait_ms}}}'
    )


def _waits(waits: tuple[Arrival, ...] | None) -> tuple[str, int]:
    """The array, and how many are not in it."""
    if waits is None:
        return "null", 0
    entries = [_wait(arrival) for arrival in waits]
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        slowest = sorted(range(len(waits)), key=lambda index: -waits[index].wait_ms)
        entries = [entries[index] for index in sorted(_fitting(entries, slowest))]
    return f"[{','.join(entries)}]", len(waits) - len(entries)


def _kicked(kicked: tuple[Kicked, ...] | None) -> tuple[str, int]:
    """The array, and how many are not in it."""
    if kicked is None:
        return "null", 0
    entries = [
        f'{{"member_id":{_quoted(member.member_id)},"instance_id":{_text(member.group_instance_id)},'
        f'"client_id":{_quoted(member.client_id)},"host":{_host(member.client_host)},"reason":"{reason}",'
        f'"was_pending":{"true" if was_pending else "false"}}}'
        for member, reason, was_pending in kicked
    ]
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        entries = [entries[index] for index in _fitting(entries, range(len(entries)))]
    return f"[{','.join(entries)}]", len(kicked) - len(entries)


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
