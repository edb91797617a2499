"""How long things may last: bounds on silence and on waiting, kept from what was said and not from the timers.

The bounds are those the protocol promises, with the longest timeouts of a group's clients in place of each one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.events import JoinCompleted, MemberReplaced
from kshim.coordinator.step import Event
from kshim_protocol.errors import ErrorCode
from tests.simulation.script import Actor, Setting
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger
    from tests.simulation.world import Call


_NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

_ALIVE = {
    "join": frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}),
    "heartbeat": frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}),
}
_NOT_WRITTEN = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR}
)
_NOT_ALIVE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    }
)


class Watch:
    """Until when each member may be in its group without another sign of life, and each call without an answer."""

    def __init__(self, setting: Setting, actors: Mapping[str, Actor]) -> None:
        self._delay_ms = setting.config["group_initial_rebalance_delay_ms"]
        self._actors = actors
        self._until: dict[str, dict[str, int]] = {}  # group -> member id -> monotonic ms
        self._limits: dict[str, tuple[int, int]] = {}  # group -> longest session, longest rebalance timeout
        self._issued: set[str] = set()  # member ids that were handed out and not yet seen as members
        self._pause_ms = 0
        self._is_late = False

    def begin_pause(self, ms: int) -> None:
        """For `ms` nobody looked at the timers; now they fire one after the other."""
        self._pause_ms = max(self._pause_ms, ms)
        self._is_late = True

    def end_pause(self) -> None:
        """All timers that were due have fired."""
        self._is_late = False

    def asked(self, call: Call) -> None:
        """A request comes: its sender's timeouts count from now on."""
        actor = self._actors.get(call.asked.actor)
        if actor is not None:
            session_ms, rebalance_ms = self._limits.get(actor.group_id, (0, 0))
            own_rebalance_ms = actor.rebalance_timeout_ms if actor.versions.join >= 1 else actor.session_timeout_ms
            self._limits[actor.group_id] = (
                max(session_ms, actor.session_timeout_ms),
                max(rebalance_ms, own_rebalance_ms),
            )

    def answered(self, call: Call, member_id: str, group: Group | None, now_ms: int) -> None:
        """A member heard something, so its coordinator has taken it to be alive."""
        verb, error = call.asked.verb, call.error
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self._issued.add(member_id)
        is_alive = error in _ALIVE[verb] if verb in _ALIVE else error not in _NOT_ALIVE
        member = group.members.get(member_id) if group is not None else None
        if member is not None and member.is_new:
            return  # its first Join is still parked, and has a time of its own
        if is_alive and member_id:
            self._alive(call.group_id, member_id, now_ms)
        elif (
            error in _NOT_WRITTEN
            and verb == "join"
            and group is not None
            and call.request.group_instance_id is not None
        ):
            # A replacement that could not be written: the member that stays is taken to be alive.
            self._alive(call.group_id, group.static_members.get(call.request.group_instance_id, ""), now_ms)

    def events(self, events: Iterable[Event], find_group: Callable[[str], Group | None], now_ms: int) -> None:
        """The end of a join phase restarts all sessions; a replacement starts one."""
        for event in events:
            if isinstance(event, JoinCompleted):
                group = find_group(event.group_id)
                for member_id in group.members if group is not None else ():
                    self._alive(event.group_id, member_id, now_ms)
            elif isinstance(event, MemberReplaced):
                self._alive(event.group_id, event.member.member_id, now_ms)

    def loaded(self, ledger: Ledger, group_ids: Iterable[str], now_ms: int) -> None:
        """Groups come from the log: everybody has a new session."""
        for group_id in group_ids:
            self._until.pop(group_id, None)
            value = ledger.groups.get(group_id)
            for member in value.members if value is not None else ():
                self._until.setdefault(group_id, {})[member.member_id] = now_ms + member.session_timeout

    def _alive(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._until.setdefault(group_id, {})[member_id] = now_ms + self._limits.get(group_id, (0, 0))[0]

    def check(self, group: Group, now_ms: int) -> None:
        """Nobody is still there who was silent for too long. Who is parked is not silent, but a new member's time runs."""
        known = self._until.setdefault(group.group_id, {})
        for member_id in (*group.members, *group.pending_joins):
            until_ms = known.get(member_id)
            if until_ms is None or (member_id in self._issued and member_id in group.members):
                self._issued.discard(member_id)
                known[member_id] = now_ms + _NEW_MEMBER_JOIN_TIMEOUT_MS
            elif now_ms > until_ms and not self._is_late:
                member = group.members.get(member_id)
                is_parked = member_id in group.parked_joins or member_id in group.parked_syncs
                if member is None or member.is_new or not is_parked:
                    raise Violation(
                        "silent-member-stays", f"{group.group_id}: {member_id} was to go at {until_ms}, it is {now_ms}"
                    )

    def check_waiting(self, waiting: Mapping[str, Mapping[Call, None]], now_ms: int) -> None:
        """Nobody waits for longer than a join phase or a sync phase may last."""
        for group_id, calls in waiting.items():
            if not calls:
                continue
            oldest = next(iter(calls))
            rebalance_ms = self._limits[group_id][1]
            limit_ms = max(rebalance_ms, self._delay_ms) + self._pause_ms
            if now_ms - oldest.since_ms > limit_ms:
                text = f"{oldest.asked} has waited since {oldest.since_ms}, it is {now_ms}"
                raise Violation("ticket-waits-too-long", text)
