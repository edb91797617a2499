"""What differs between two answers to the same request, field by field, and which ids of one run are those of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import ZERO_UUID, Struct

SHOWN_CHARACTERS: Final = 100


class FieldDifference(NamedTuple):
    """One field: where it stands, e.g. `members[1].member_id`, and its two values as text."""

    path: str
    recorded: str
    replayed: str


ID_FIELDS: Final = {
    "member_id": "member",
    "leader": "member",
    "topic_id": "topic",
    "producer_id": "producer",
    "v3_and_below_producer_id": "producer",
    "session_id": "fetch session",
    "cluster_id": "cluster",
    "node_id": "node",
    "controller_id": "node",
    "leader_id": "node",
    "current_leader_id": "node",
    "broker_id": "node",
}
"""Fields that hold an id which each broker makes by itself, and what it is an id of."""
_NODE_LISTS: Final = frozenset({"replica_nodes", "isr_nodes", "offline_replicas"})
_OF_PLACE: Final = frozenset({"host", "port", "rack"})
_OF_WORDING: Final = frozenset({"error_message", "batch_index_error_message"})
_OF_TIME: Final = frozenset({"throttle_time_ms", "log_append_time_ms", "session_lifetime_ms"})
_OF_ANOTHER_BROKER: Final = _OF_PLACE | _OF_WORDING
_KEYS: Final = (
    "name",
    "topic",
    "group_id",
    "partition_index",
    "partition",
    "index",
    "topic_id",
    "node_id",
    "broker_id",
)


class Ids:
    """Which id of the replay stands for which of the recording. An id is learned where both answers have one first.

    `places`: the answers are of brokers at different places, so that node ids, hosts and ports are not the same either.
    """

    def __init__(self, *, places: bool = False) -> None:
        self.places = places
        self._known: dict[tuple[str, Any], Any] = {}
        self._taken: dict[tuple[str, Any], Any] = {}
        self.has_changed = False
        """Whether some id is not the same in both."""
        self._generations: dict[tuple[str, str, int], int] = {}

    def are_same(self, kind: str, recorded: Any, replayed: Any) -> bool:
        """Whether two ids stand for each other; when neither was ever seen, they do from now on."""
        if kind == "node" and not self.places:
            return bool(recorded == replayed)
        if _is_none(kind, recorded) or _is_none(kind, replayed):
            return bool(recorded == replayed)
        known = self._known.get((kind, recorded))
        if known is None and (kind, replayed) not in self._taken:
            self._known[kind, recorded] = known = replayed
            self._taken[kind, replayed] = recorded
            self.has_changed = self.has_changed or recorded != replayed
        return bool(known == replayed)

    def replayed(self, kind: str, recorded: Any) -> Any:
        """The id of the replay for one of the recording; the same when it is not known."""
        return self._known.get((kind, recorded), recorded)

    def joined(self, group_id: str, member_id: str, recorded: int, replayed: int) -> None:
        """A member got another generation than it had."""
        if recorded != replayed:
            self.has_changed = True
        self._generations[group_id, member_id, recorded] = replayed

    def generation(self, group_id: str, member_id: str, recorded: int) -> int:
        """The generation a member would name, by its id in the recording."""
        return self._generations.get((group_id, member_id, recorded), recorded)


def _is_none(kind: str, value: Any) -> bool:
    """Whether a value is no id at all."""
    return value in ("", None, -1, ZERO_UUID) or (value == 0 and kind == "fetch session")


def differences(recorded: Any, replayed: Any, ids: Ids) -> list[FieldDifference]:
    """Where two answers of the same type differ. Times are no differences, nor are ids that stand for each other."""
    return list(_of_structs(recorded, replayed, "", ids))


def fetch_errors(recorded: Any, replayed: Any, ids: Ids) -> list[FieldDifference]:
    """As `differences` of two Fetches, which found what there was when they came: of errors only."""
    ids.are_same("fetch session", recorded.session_id, replayed.session_id)
    ours, theirs = _errors_in(recorded, ids), _errors_in(replayed, Ids())
    return [
        FieldDifference(path, _shown("error_code", ours[path]), _shown("error_code", theirs[path]))
        for path in sorted(ours.keys() & theirs.keys())
        if ours[path] != theirs[path]
    ]


def _errors_in(response: Any, ids: Ids) -> dict[str, int]:
    found = {"error_code": response.error_code}
    for topic in response.responses:
        name = topic.topic or ids.replayed("topic", topic.topic_id).hex()
        for partition in topic.partitions:
            found[f"responses[{name}].partitions[{partition.partition_index}].error_code"] = partition.error_code
    return found


def _of_structs(recorded: Struct, replayed: Struct, path: str, ids: Ids) -> Iterator[FieldDifference]:
    for row in recorded.info.rows:
        name = row.name
        ours, theirs = getattr(recorded, name), getattr(replayed, name)
        where = f"{path}.{name}" if path else name
        if name in _OF_TIME or (ids.places and name in _OF_ANOTHER_BROKER):
            continue
        kind = ID_FIELDS.get(name)
        if kind is not None and not isinstance(ours, Struct | tuple):
            if not ids.are_same(kind, ours, theirs):
                yield FieldDifference(where, _shown(name, ours), _shown(name, theirs))
        elif name in _NODE_LISTS:
            if ids.places:
                continue
            if ours != theirs:
                yield FieldDifference(where, _shown(name, ours), _shown(name, theirs))
        elif isinstance(ours, Struct) and isinstance(theirs, Struct):
            yield from _of_structs(ours, theirs, where, ids)
        elif isinstance(ours, tuple) and isinstance(theirs, tuple):
            yield from _of_arrays(ours, theirs, where, name, ids)
        elif ours != theirs and not (ours != ours and theirs != theirs):
            yield FieldDifference(where, _shown(name, ours), _shown(name, theirs))


def _of_arrays(
    recorded: Sequence[Any], replayed: Sequence[Any], path: str, name: str, ids: Ids
) -> Iterator[FieldDifference]:
    key = _key_of(recorded, replayed, ids)
    replayed = _in_order_of(recorded, replayed, ids)
    if key is None:
        if len(recorded) != len(replayed):
            yield FieldDifference(f"{path}.length", str(len(recorded)), str(len(replayed)))
        for index, (ours, theirs) in enumerate(zip(recorded, replayed, strict=False)):
            if isinstance(ours, Struct) and isinstance(theirs, Struct):
                yield from _of_structs(ours, theirs, f"{path}[{index}]", ids)
            elif ours != theirs:
                yield FieldDifference(f"{path}[{index}]", _shown(name, ours), _shown(name, theirs))
        return
    left = {key(theirs): theirs for theirs in replayed}
    for ours in recorded:
        found = left.pop(key(ours), None)
        where = f"{path}[{_text(key(ours))}]"
        if found is None:
            yield FieldDifference(where, _shown(name, ours), "(none)")
        else:
            yield from _of_structs(ours, found, where, ids)
    for value, theirs in left.items():
        yield FieldDifference(f"{path}[{_text(value)}]", "(none)", _shown(name, theirs))


def _in_order_of(recorded: Sequence[Any], replayed: Sequence[Any], ids: Ids) -> Sequence[Any]:
    """Members in the order of the recording, where another broker lists them in another one."""
    if not ids.places or len(recorded) != len(replayed) or not hasattr(next(iter(recorded), None), "member_id"):
        return replayed
    found = {element.member_id: element for element in replayed}
    wanted = [ids.replayed("member", element.member_id) for element in recorded]
    return [found[member_id] for member_id in wanted] if found.keys() == set(wanted) else replayed


def _key_of(recorded: Sequence[Any], replayed: Sequence[Any], ids: Ids) -> Callable[[Any], Any] | None:
    """What tells the elements of an array apart in both runs, or None."""
    if not recorded or not replayed or not isinstance(recorded[0], Struct):
        return None
    names = {row.name for row in recorded[0].info.rows}
    for name in _KEYS:
        if name not in names or (name in ID_FIELDS and (name == "topic_id" or ids.places)):
            continue
        for elements in (recorded, replayed):
            values = [getattr(element, name) for element in elements]
            if len(set(values)) != len(values) or None in values:
                break
        else:
            return lambda element, name=name: getattr(element, name)  # type: ignore[misc]
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _shown(name: str, value: Any) -> str:
    """A value as a report shows it."""
    if name.endswith("error_code") and isinstance(value, int):
        try:
            return ErrorCode(value).name
        except ValueError:
            return f"error {value}"
    if isinstance(value, bytes):
        text = value.hex() if len(value) == 16 else repr(value)[1:]
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"
