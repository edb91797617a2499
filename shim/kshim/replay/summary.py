"""What the groups of a recording did: their rebalances, each with its cause, in the words of the coordinator."""

from __future__ import annotations

from typing import Any, NamedTuple

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import GroupEvent, MemberRef, RebalanceCompleted, Transition
from kshim.coordinator.step import Event
from kshim.recording.format import Entry, Kind
from kshim.replay.messages import parse_request
from kshim_protocol.frame import ProtocolError


class Rebalance(NamedTuple):
    """One rebalance. `cause` is the keyword of the history, `detail` its sentence; what is None has not come to its end."""

    wall_ms: int
    cause: str
    detail: str
    member_id: str | None
    from_generation: int
    to_generation: int | None
    member_count: int | None
    duration_ms: int | None
    end: str
    """`completed`, `empty` (no member was left), `again` (another one began) or `open`."""


class GroupSummary:
    """A group and its rebalances, in order."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = str(GroupState.EMPTY)
        self.generation_id = 0
        self.rebalances: list[Rebalance] = []

    def as_json(self) -> dict[str, Any]:
        """As `kshim replay --summary --json` prints it."""
        return {
            "group": self.group_id,
            "state": self.state,
            "generation": self.generation_id,
            "rebalances": [rebalance._asdict() for rebalance in self.rebalances],
        }


class Summary:
    """Give `observe` the events of a coordinator."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupSummary] = {}

    def observe(self, event: Event) -> None:
        """Take in an event of the coordinator."""
        if not isinstance(event, GroupEvent):
            return
        group = self.groups.setdefault(event.group_id, GroupSummary(event.group_id))
        group.generation_id = event.generation_id
        match event:
            case Transition(new=GroupState.PREPARING_REBALANCE):
                _end(group, event, "again")
                rebalance = Rebalance(
                    event.now.wall_ms, str(event.cause), event.detail, _id(event.member), event.generation_id,
                    None, None, None, "open",
                )  # fmt: skip
                group.rebalances.append(rebalance)
            case Transition(new=GroupState.EMPTY | GroupState.DEAD):
                _end(group, event, "empty", member_count=0)
            case RebalanceCompleted():
                _end(group, event, "completed", event.member_count, event.join_ms + event.sync_ms)
            case _:
                pass
        if isinstance(event, Transition):
            group.state = str(event.new)


def groups_of(entry: Entry) -> set[str]:
    """The groups that a recorded request names."""
    if entry.kind != Kind.REQUEST:
        return set()
    try:
        body = parse_request(entry.payload).body
    except ProtocolError:
        return set()
    named = [
        getattr(body, "group_id", None),
        *(getattr(body, "groups", None) or getattr(body, "groups_names", None) or ()),
    ]
    return {name for name in (getattr(each, "group_id", each) for each in named) if isinstance(name, str) and name}


def _id(member: MemberRef | None) -> str | None:
    return None if member is None else member.member_id


def _end(
    group: GroupSummary, event: GroupEvent, end: str, member_count: int | None = None, duration_ms: int | None = None
) -> None:
    """Note how the last rebalance ended, if it has not before."""
    if not group.rebalances or group.rebalances[-1].end != "open":
        return
    last = group.rebalances[-1]
    group.rebalances[-1] = last._replace(
        to_generation=event.generation_id,
        member_count=member_count,
        duration_ms=event.now.wall_ms - last.wall_ms if duration_ms is None else duration_ms,
        end=end,
    )
