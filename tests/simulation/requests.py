"""From an input to the request it is, and from an answer to the one error that counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import (
    Committed,
    GroupMember,
    OffsetsOf,
    TopicId,
    leave_group,
    offset_delete,
    offset_fetch,
)
from kshim_protocol.messages.delete_groups import DeleteGroupsRequest
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.join_group import JoinGroupResponse
from kshim_protocol.messages.leave_group import MemberIdentity
from kshim_protocol.messages.list_groups import ListGroupsRequest
from tests.simulation.assignors import COOPERATIVE, assign, subscription
from tests.simulation.script import Actor, Input

_METHODS = {
    "join": "join_group",
    "sync": "sync_group",
    "heartbeat": "heartbeat",
    "leave": "leave_group",
    "remove": "leave_group",
    "commit": "offset_commit",
    "fetch": "offset_fetch",
    "describe": "describe_groups",
    "list": "list_groups",
    "delete": "delete_groups",
    "offset-delete": "offset_delete",
}


def method_of(verb: str) -> str:
    """The coordinator's method for a verb."""
    return _METHODS[verb]


class Memory:
    """What an actor knows of its membership, from the answer to one Join: member id, generation, and its role."""

    __slots__ = ("generation_id", "join", "member_id")

    def __init__(self, member_id: str = "", generation_id: int = -1, join: JoinGroupResponse | None = None) -> None:
        self.member_id = member_id
        self.generation_id = generation_id
        self.join = join

    @classmethod
    def of(cls, join: JoinGroupResponse) -> Memory:
        """What a Join's answer tells."""
        return cls(join.member_id, join.generation_id, join)

    @property
    def is_leader(self) -> bool:
        """Whether it has to assign."""
        join = self.join
        return (
            join is not None
            and join.error_code == ErrorCode.NONE
            and join.leader == join.member_id
            and not join.skip_assignment
        )


class Catalog:
    """Implements `TopicCatalog`: the topics there are, each with an id that no other ever has."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts: dict[str, int] = {}
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._made = 0
        for name, partitions in counts.items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> None:
        """A new topic."""
        self._made += 1
        id_ = self._made.to_bytes(16, "big")
        self.counts[name] = partitions
        self._ids[name] = id_
        self._names[id_] = name

    def delete(self, name: str) -> None:
        """The topic goes, its id for ever."""
        del self.counts[name]
        del self._names[self._ids.pop(name)]

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)


_Builder = Callable[[Input, Actor, Memory, Catalog], Any]


def build_request(what: Input, actor: Actor, memory: Memory, catalog: Catalog) -> Any:
    """The request an actor sends, given what it remembers."""
    return _BUILDERS[what.verb](what, actor, memory, catalog)


def _member(actor: Actor, memory: Memory) -> GroupMember:
    return GroupMember(actor.group_id, memory.member_id, memory.generation_id, actor.instance_id)


def _join(what: Input, actor: Actor, memory: Memory, _catalog: Catalog) -> Any:
    detail = what.detail
    protocols = [
        (
            name,
            subscription(
                detail["topics"],
                detail["owned"] if name == COOPERATIVE else (),
                detail["owned_generation"],
                actor.subscription_version if name != COOPERATIVE else max(actor.subscription_version, 1),
            ),
        )
        for name in actor.protocols
    ]
    return _member(actor, memory).join(
        what.version,
        protocols,
        session_timeout_ms=actor.session_timeout_ms,
        rebalance_timeout_ms=actor.rebalance_timeout_ms,
        reason=detail.get("reason"),
    )


def _sync(what: Input, actor: Actor, memory: Memory, catalog: Catalog) -> Any:
    join = memory.join
    assignments: Mapping[str, bytes] = {}
    if join is not None and memory.is_leader:
        members = [(member.member_id, member.group_instance_id, member.metadata) for member in join.members]
        assignments = assign(join.protocol_name or "", members, catalog.counts)
    protocol_name = None if join is None else join.protocol_name
    return _member(actor, memory).sync(what.version, assignments.items(), protocol_name=protocol_name)


def _remove(what: Input, _actor: Actor, _memory: Memory, _catalog: Catalog) -> Any:
    members = [MemberIdentity(group_instance_id=instance_id) for instance_id in what.detail["instances"]]
    return leave_group(what.version, what.detail["group"], members)


def _by_topic(partitions: Any) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _id_in(catalog: Catalog) -> TopicId:
    return lambda name: catalog.topic_id(name) or b"\xff" * 16


def _commit(what: Input, actor: Actor, memory: Memory, catalog: Catalog) -> Any:
    detail = what.detail
    offsets: Mapping[tuple[str, int], int] = detail["offsets"]
    member = _member(actor, memory)
    if not memory.member_id:
        member = member._replace(group_instance_id=None)
    positions = [
        (name, [Committed(index, offsets[name, index], detail.get("metadata", ""), 3) for index in indexes])
        for name, indexes in _by_topic(offsets).items()
    ]
    retention_ms = detail.get("retention_ms", -1)
    return member.commit(what.version, positions, topic_id=_id_in(catalog), retention_time_ms=retention_ms)


def _fetch(what: Input, actor: Actor, _memory: Memory, catalog: Catalog) -> Any:
    of = OffsetsOf(actor.group_id, _by_topic(what.detail["partitions"]).items())
    return offset_fetch(what.version, [of], topic_id=_id_in(catalog), require_stable=what.version >= 7)


_BUILDERS: dict[str, _Builder] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": lambda what, actor, memory, _: _member(actor, memory).heartbeat(what.version),
    "leave": lambda what, actor, memory, _: _member(actor, memory).leave(what.version, "closed"),
    "remove": _remove,
    "commit": _commit,
    "fetch": _fetch,
    "describe": lambda what, *_: DescribeGroupsRequest(groups=tuple(what.detail["groups"])),
    "list": lambda what, *_: ListGroupsRequest(states_filter=tuple(what.detail.get("states", ()))),
    "delete": lambda what, *_: DeleteGroupsRequest(groups_names=tuple(what.detail["groups"])),
    "offset-delete": lambda what, *_: offset_delete(what.detail["group"], _by_topic(what.detail["partitions"]).items()),
}


def error_of(verb: str, version: int, response: Any) -> ErrorCode:
    """The one error that decides what the client does next: the first that is not NONE."""
    match verb:
        case "join" | "sync" | "heartbeat" | "list":
            return ErrorCode(response.error_code)
        case "leave" | "remove":
            codes = [response.error_code, *(member.error_code for member in response.members)]
        case "commit":
            codes = [p.error_code for topic in response.topics for p in topic.partitions]
        case "offset-delete":
            codes = [response.error_code, *(p.error_code for topic in response.topics for p in topic.partitions)]
        case "fetch" if version >= 8:
            group = response.groups[0]
            codes = [group.error_code, *(p.error_code for topic in group.topics for p in topic.partitions)]
        case "fetch":
            codes = [response.error_code, *(p.error_code for topic in response.topics for p in topic.partitions)]
        case "describe":
            codes = [group.error_code for group in response.groups]
        case "delete":
            codes = [result.error_code for result in response.results]
        case _:
            raise ValueError(verb)
    return ErrorCode(next((code for code in codes if code), 0))
