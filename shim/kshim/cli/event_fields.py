"""Events of coordinators in the JSON form of the log. Apart from the log, as events are not part of a start."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import HISTORY_FIELDS, AnyGroupState, MemberRef, Transition
from kshim.coordinator.step import OFFSETS_TOPIC, Event

_PHASES: Final[dict[AnyGroupState, str]] = {
    GroupState.PREPARING_REBALANCE: "join",
    GroupState.COMPLETING_REBALANCE: "sync",
}
_RENAMED: Final = {
    "group_id": "group",
    "generation_id": "generation",
    "previous": "from",
    "new": "to",
    "partition": "offsets_partition",
}
_MEMBER_FIELDS: Final = (
    ("member", "member_id"),
    ("instance", "group_instance_id"),
    ("client_id", "client_id"),
    ("host", "client_host"),
    ("client_reason", "client_reason"),
)


def event_fields(event: Event) -> dict[str, Any]:
    """The fields of a coordinator event as JSON values, under the names that logs and tools use."""
    fields: dict[str, Any] = {}
    for name, value in vars(event).items():
        if name == "now" or name in HISTORY_FIELDS:
            continue
        if isinstance(value, MemberRef):
            fields.update((key, getattr(value, slot)) for key, slot in _MEMBER_FIELDS)
        elif name == "member":
            fields.update((key, None) for key, _ in _MEMBER_FIELDS)
        elif name == "partition" and event.topic != OFFSETS_TOPIC:
            fields["transactions_partition"] = value
        else:
            fields[_RENAMED.get(name, name)] = _json_value(value)
    if isinstance(event, Transition):
        fields["phase"] = _PHASES.get(event.new)
    return fields


def _json_value(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name if isinstance(value, int) else str(value)
    if isinstance(value, tuple):
        return [_json_value(part) for part in value]
    return value


def event_keyword(event_class: type[Event]) -> str:
    """What the JSON form calls an event: `MemberAdded` is `member_added`."""
    name = event_class.__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
