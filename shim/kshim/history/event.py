"""One event of the history, kept as an object; its JSON is built when it is read.

The page `docs/design/events.md` says what each field means. The events of a rebalance share what is the same in all of
them, so that an event costs little until it is read, and its JSON not much more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.events import Arrivals, MemberRef, Offer, TopicPartitions, Wish
from kshim.coordinator.step import Now
from kshim.history.activity import Activity, activity_json
from kshim.history.subscription import subscription_json

try:  # the rest of `json` takes longer to import than the history
    from _json import encode_basestring as _quoted
except ImportError:
    from json.encoder import encode_basestring as _quoted


EVENT_VERSION: Final = 2
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
    """What an event is about: the group and its type (`classic` or `consumer`), the epoch it is in, the cause and the member behind it."""

    def __init__(
        self,
        group_id: str,
        protocol_type: str | None,
        epoch: int,
        from_generation: int,
        reason: str,
        reason_text: str,
        trigger: MemberRef | None,
        group_type: str = "classic",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_type = group_type
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
                f'"group":{_quoted(self.group_id)},"protocol_type":{_text(self.protocol_type)},'
                f'"group_type":"{self.group_type}","epoch":{self.epoch},'
                f'"from_generation":{self.from_generation}',
                f'"reason":"{self.reason}","reason_text":{_quoted(self.reason_text)},"trigger":{_member(self.trigger)}',
            )
        return self._head_json


class Course(Why):
    """One rebalance of a group of any type: why it began, and who was in it.

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
        group_type: str = "classic",
    ) -> None:
        super().__init__(
            group_id,
            protocol_type,
            epoch,
            from_generation,
            ending_of_last.reason,
            ending_of_last.text,
            trigger,
            group_type,
        )
        self.started_ms = started_ms
        self.expected = expected
        self.kicked: list[Kicked] = []
        self.to_generation: int | None = None
        self.protocol: str | None = None
        self.pending_sync: int | None = None
        self.size_bytes = 0
        """Memory of what it lists, once the end is known."""


class Timeline(Course):
    """One rebalance of a classic group, and how it went. What is None is not known before the join phase has ended."""

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
        super().__init__(group_id, protocol_type, epoch, from_generation, ending_of_last, trigger, started_ms, expected)
        self.initial_delay_ms = initial_delay_ms
        self.ending: Ending | None = None
        self.joined_ms = 0
        self.join_ms: int | None = None
        self.arrivals: Arrivals | None = None
        self.last_to_join: Arrival | None = None
        self.leader_id: str | None = None
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
            size_bytes += _size_of_kicked(self.kicked)
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


class EpochCourse(Course):
    """One rebalance of a group of the new protocol: from a new epoch until every member is where its target is.

    Instants are ms since it began; `target_ms` and `revoked_ms` are None while that has not been. `settled` are the members
    that are at the epoch.
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
        to_generation: int,
    ) -> None:
        super().__init__(
            group_id,
            protocol_type,
            epoch,
            from_generation,
            ending_of_last,
            trigger,
            started_ms,
            expected,
            "consumer",
        )
        self.to_generation = to_generation
        self.target_ms: int | None = None
        self.revoked_ms: int | None = None
        self.members: dict[str, Progress] = {}
        self.newcomers: set[str] = set()
        self.settled: dict[str, MemberRef] = {}
        self.last_to_revoke: Arrival | None = None
        self.last_to_assign: Arrival | None = None
        self.gaps: list[Gap] = []

    def arrival(self, member: MemberRef, now_ms: int) -> Arrival:
        """A member has done something now: how long after the target was computed."""
        wait_ms = now_ms - self.started_ms - (self.target_ms or 0)
        return Arrival(member, member.member_id in self.newcomers, wait_ms)

    def phases(self, total_ms: int, *, is_revoking: bool) -> tuple[int, int | None, int | None]:
        """How long it computed, revoked and assigned until now; None for a phase that was not reached.

        A member that `is_revoking` has still partitions to give up.
        """
        if self.target_ms is None:
            return total_ms, None, None
        if is_revoking:
            return self.target_ms, total_ms - self.target_ms, None
        revoked_ms = max(self.target_ms, self.revoked_ms or 0)
        return self.target_ms, revoked_ms - self.target_ms, total_ms - revoked_ms

    def close(self) -> None:
        """Nothing more comes: work out `size_bytes`."""
        self.size_bytes = _size_of_kicked(self.kicked)


class Progress:
    """A member that a target takes partitions from or gives some to. Instants are ms since the rebalance began.

    It was told to revoke at `told_ms`, and had done so at `revoked_ms`; it had got all it is to get at `assigned_ms`.
    """

    __slots__ = ("assigned_ms", "gained", "is_new", "lost", "member", "revoked_ms", "told_ms")

    def __init__(self, member: MemberRef, *, is_new: bool, lost: int, gained: int) -> None:
        self.member = member
        self.is_new = is_new
        self.lost = lost
        self.gained = gained
        self.told_ms: int | None = None
        self.revoked_ms: int | None = None
        self.assigned_ms: int | None = None


class Gap(NamedTuple):
    """The time in which a partition had no owner, from one member to another."""

    topic: str
    partition: int
    unowned_ms: int
    from_member_id: str
    to_member_id: str


class StepTaken(NamedTuple):
    """One step of a member: its state and epoch after it, and the partitions that it is about."""

    state: str
    epoch: int
    to_revoke: TopicPartitions
    revoked: TopicPartitions
    received: TopicPartitions


class Reconciliation:
    """What an event of a group of the new protocol says of its way to a target; fixed when the event happens."""

    def __init__(
        self,
        *,
        phases: tuple[int | None, int | None, int | None] = (None, None, None),
        course: EpochCourse | None = None,
        gaps: Sequence[Gap] = (),
        step: StepTaken | None = None,
    ) -> None:
        self.phases = phases
        self.total_ms = None if phases[0] is None else sum(each or 0 for each in phases)
        self.step = step
        self.gaps = gaps
        self.last_to_revoke: Arrival | None = None
        self.last_to_assign: Arrival | None = None
        self.progress: list[str] | None = None
        if course is not None:
            self.last_to_revoke, self.last_to_assign = course.last_to_revoke, course.last_to_assign
            self.progress = [_progress(each) for each in course.members.values()]

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        size_bytes = 300 + 200 * len(self.gaps) + sum(map(len, self.progress or ()))
        if self.step is not None:
            size_bytes += 80 * sum(map(len, self.step[2:]))
        return size_bytes


def _size_of_kicked(kicked: Sequence[Kicked]) -> int:
    return sum([600 + 2 * len(each.member.member_id) for each in kicked])


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
    reconciliation: Reconciliation | None = None
    offer: Offer | Wish | None = None
    """Whose subscription is read when the JSON is."""

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds, with what it shares with its neighbours."""
        size_bytes = 900 + 2 * len(self.why.reason_text)
        if self.reconciliation is not None:
            size_bytes += self.reconciliation.size_bytes
        if self.offer is not None:  # what was before may be shared with another event, and the names with the group
            size_bytes += 200 + self.offer.size_bytes
        return size_bytes + self.why.size_bytes if self.outcome and isinstance(self.why, Course) else size_bytes

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
            f'{self._timeline_json()},"reconciliation":{_reconciliation(self.reconciliation)},'
            f'"activity":{activity_json(self.activity)},'
            f'"subscription":{subscription_json(self.offer)},'
            f'"injected_fault":{_text(self.injected_fault)}}}'
        )
        return text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes \udxxx, which JSON knows, too

    def _timeline_json(self) -> str:
        """From `leader_id` to `ended_by`."""
        timeline = self.why
        if isinstance(timeline, EpochCourse):
            return self._epoch_json(timeline)
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

    def _epoch_json(self, course: EpochCourse) -> str:
        """As `_timeline_json`, of a group without join and sync phases."""
        kicked = '"kicked":null,"kicked_omitted":0'
        if self.outcome is not None:
            kicked = _kicked(course.kicked[: self.kicked_count])
        pending = _number(self.pending_sync)
        joined = "null" if self.pending_sync is None else str((self.expected or 0) - self.pending_sync)
        found = self.reconciliation
        return (
            f'"leader_id":null,"members":{{"expected":{_number(self.expected)},"joined":{joined},'
            f'"kicked":{self.kicked_count},"pending_sync":{pending}}},"join_ms":null,"sync_ms":null,'
            f'"total_ms":{_number(None if found is None else found.total_ms)},"last_to_join":null,"last_to_sync":null,'
            f'"waits":null,"waits_omitted":0,{kicked},"initial_delay_ms":null,'
            f'"protocol":{_text(None if self.type == "rebalance_started" else course.protocol)},'
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
    return _limited("kicked", entries)


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


def _reconciliation(found: Reconciliation | None) -> str:
    if found is None:
        return "null"
    compute_ms, revoke_ms, assign_ms = map(_number, found.phases)
    gaps = [
        f'{{"topic":{_quoted(gap.topic)},"partition":{gap.partition},"unowned_ms":{gap.unowned_ms},'
        f'"from_member_id":{_quoted(gap.from_member_id)},"to_member_id":{_quoted(gap.to_member_id)}}}'
        for gap in sorted(found.gaps, key=lambda gap: -gap.unowned_ms)
    ]
    return (
        f'{{"compute_ms":{compute_ms},"revoke_ms":{revoke_ms},"assign_ms":{assign_ms},'
        f'"last_to_revoke":{_last(found.last_to_revoke)},"last_to_assign":{_last(found.last_to_assign)},'
        f'{_limited("members", found.progress)},{_limited("unowned", gaps)},"step":{_step(found.step)}}}'
    )


def _progress(progress: Progress) -> str:
    return (
        f'{{{_names(progress.member)},"is_new":{_BOOL[progress.is_new]},"lost":{progress.lost},'
        f'"gained":{progress.gained},"told_ms":{_number(progress.told_ms)},'
        f'"revoked_ms":{_number(progress.revoked_ms)},"assigned_ms":{_number(progress.assigned_ms)}}}'
    )


def _step(step: StepTaken | None) -> str:
    if step is None:
        return "null"
    state, epoch, *partitions = step
    lists = (
        f'"{name}":[{",".join(_quoted(f"{topic}-{index}") for topic, index in each)}]'
        for name, each in zip(("to_revoke", "revoked", "received"), partitions, strict=True)
    )
    return f'{{"state":"{state}","epoch":{epoch},{",".join(lists)}}}'


def _limited(name: str, entries: Sequence[str] | None) -> str:
    """A list and how many of it are left out; the first are kept."""
    if entries is None:
        return f'"{name}":null,"{name}_omitted":0'
    kept = entries
    if sum(map(len, entries)) > LIST_MAX_BYTES:
        kept = [entries[index] for index in _fitting(entries, range(len(entries)))]
    return f'"{name}":[{",".join(kept)}],"{name}_omitted":{len(entries) - len(kept)}'


def _ending(ending: Ending | None) -> str:
    if ending is None:
        return "null"
    return f'{{"reason":"{ending.reason}","text":{_quoted(ending.text)},"member_id":{_text(ending.member_id)}}}'
