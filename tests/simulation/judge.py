"""Whether each answer is right: against the log, against the group as it is, and against earlier answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kshim.coordinator.groups.classic.group import Group
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import AnyGroupState, JoinCompleted, Transition
from kshim.coordinator.step import Event, Now
from kshim_protocol.errors import ErrorCode
from tests.simulation.assignors import owned_in
from tests.simulation.ledger import Cause, Entry, Ledger, OffsetKey
from tests.simulation.requests import Catalog
from tests.simulation.violation import Violation, require
from tests.simulation.watch import Watch

if TYPE_CHECKING:
    from tests.simulation.world import Call


FindGroup = Callable[[str], Group | None]


class Judge:
    """Remembers what was said: who leads each generation, who owns what in it, how far generations have come."""

    def __init__(self, ledger: Ledger, watch: Watch, catalog: Catalog) -> None:
        self._ledger = ledger
        self._watch = watch
        self._catalog = catalog
        self._generations: dict[str, int] = {}
        self._leaders: dict[str, tuple[int, str]] = {}  # group -> generation, who leads it
        self._given: dict[str, tuple[int, dict[tuple[str, int], str]]] = {}  # group -> generation, partition -> owner
        self._instances: dict[str, str] = {}  # member id -> instance id
        self._states: dict[str, AnyGroupState] = {}

    # Around a step

    def cause_of(self, call: Call, now: Now) -> Cause:
        """What a request may have written."""
        request, detail = call.request, call.asked.detail
        match call.asked.verb:
            case "commit":
                return Cause("commit", frozenset({call.group_id}), commits=self._wanted(call, now))
            case "delete":
                return Cause("delete", frozenset(request.groups_names))
            case "offset-delete":
                partitions = frozenset(detail["partitions"])
                return Cause("offset-delete", frozenset({call.group_id}), partitions=partitions)
            case "list" | "describe":
                return Cause(call.asked.verb)
            case verb:
                return Cause(verb, frozenset({call.group_id}))

    def _wanted(self, call: Call, now: Now) -> dict[OffsetKey, Entry]:
        """The offsets a commit asks for, as they must be stored."""
        request, wanted = call.request, {}
        retention_ms = request.retention_time_ms
        for topic in request.topics:
            name = topic.name or self._catalog.topic_name(topic.topic_id) or ""
            for partition in topic.partitions:
                entry = Entry(
                    partition.committed_offset,
                    -1 if retention_ms != -1 else partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                    now.wall_ms,
                    -1 if retention_ms == -1 else now.wall_ms + retention_ms,
                    bytes(16) if retention_ms != -1 else self._catalog.topic_id(name) or bytes(16),
                )
                wanted[call.group_id, name, partition.partition_index] = entry
        return wanted

    def events(self, events: Iterable[Event], find_group: FindGroup, now_ms: int) -> None:
        """Transitions follow each other without a gap; the last one says where the group is."""
        for event in events:
            if isinstance(event, Transition):
                known = self._states.get(event.group_id, event.previous)
                if known is not event.previous:
                    raise Violation("transition-unreported", f"{event.group_id}: {known}, then from {event.previous}")
                self._states[event.group_id] = event.new
                if event.new is GroupState.DEAD:
                    self._forget(event.group_id)
        self._watch.events(events, find_group, now_ms)

    def _forget(self, group_id: str) -> None:
        for remembered in (self._states, self._generations, self._leaders, self._given):
            remembered.pop(group_id, None)

    def loaded(self, group_ids: Iterable[str]) -> None:
        """Groups come from the log: what was not written there is forgotten, generations included."""
        for group_id in group_ids:
            self._states.pop(group_id, None)
            value = self._ledger.groups.get(group_id)
            generation_id = value.generation if value is not None else 0
            self._generations[group_id] = generation_id
            for member in value.members if value is not None else ():
                if member.group_instance_id is not None:
                    self._instances[member.member_id] = member.group_instance_id
            for remembered in (self._leaders, self._given):
                found = remembered.get(group_id)
                if found is not None and found[0] != generation_id:
                    del remembered[group_id]

    def phases(self, events: Iterable[Event], answered: Iterable[Call]) -> None:
        """When a join phase ends, its leader is among those who are told so, for nobody else will assign."""
        for event in events:
            if isinstance(event, JoinCompleted):
                told = {(call.group_id, call.response.member_id) for call in answered if call.asked.verb == "join"}
                if (event.group_id, event.leader_id) not in told:
                    raise Violation("leader-not-told", f"{event.group_id}: {event.leader_id} leads and is not here")

    def group(self, group: Group) -> None:
        """Generations never fall, states are the reported ones."""
        before = self._generations.get(group.group_id, 0)
        if group.generation_id < before:
            raise Violation("generation-falls", f"{group.group_id}: {before}, now {group.generation_id}")
        self._generations[group.group_id] = group.generation_id
        reported = self._states.get(group.group_id)
        if reported is not None and reported is not group.state:
            raise Violation("transition-unreported", f"{group.group_id}: {reported} reported, {group.state} found")

    # Answers

    def learn(self, call: Call) -> None:
        """Who an answer makes a static member. To be told of all answers of a step before any is judged."""
        if call.asked.verb == "join" and call.request.group_instance_id is not None:
            self._instances[call.response.member_id] = call.request.group_instance_id

    def answer(self, call: Call, group: Group | None, now: Now, *, is_own: bool) -> None:
        """Judge one answer. `is_own`: it was given to the request at hand, and nothing has happened since."""
        response, error = call.response, call.error
        member_id = getattr(call.request, "member_id", "")
        match call.asked.verb:
            case "join":
                member_id = response.member_id
                if error is ErrorCode.NONE:
                    self._join(call, group)
                elif is_own and error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                    self._inconsistent(call, group)
            case "sync" if error is ErrorCode.NONE:
                self._sync(call)
            case "heartbeat" if is_own:
                self._heartbeat(error, group)
            case "commit":
                self._commit(call, now)
            case "fetch":
                self._fetch(call)
            case "describe":
                self._describe(response)
            case "delete":
                for result in response.results:
                    is_there = result.group_id in self._ledger.known
                    require(result.error_code != ErrorCode.NONE or not is_there, "delete-untrue", result.group_id)
            case "offset-delete":
                self._offset_delete(call)
            case _:
                pass
        if is_own and group is not None and member_id and group.state is not GroupState.EMPTY:
            self._refusal(call, error, member_id, group)
        if member_id or call.asked.verb == "join":
            self._watch.answered(call, member_id, group, now.mono_ms)

    def _join(self, call: Call, group: Group | None) -> None:
        response, group_id = call.response, call.group_id
        member_id, generation_id = response.member_id, response.generation_id
        ids = [member.member_id for member in response.members]
        if ids and (response.leader != member_id or member_id not in ids):
            raise Violation("leader-no-member", f"{group_id}: {response.leader} leads {ids}, told to {member_id}")
        if response.leader == member_id and not ids:
            raise Violation("leader-no-member", f"{group_id}: leader {member_id} is not told the members")
        for member in response.members:
            if member.group_instance_id is not None:
                self._instances[member.member_id] = member.group_instance_id
        leader = self._owner(response.leader)
        known_generation, known_leader = self._leaders.get(group_id, (-1, ""))
        if generation_id == known_generation and leader != known_leader:
            raise Violation("two-leaders", f"{group_id} generation {generation_id}: {known_leader} and {leader}")
        if generation_id < known_generation:
            raise Violation("generation-falls", f"{group_id}: {generation_id} after {known_generation}")
        self._leaders[group_id] = (generation_id, leader)
        if group is not None and group.generation_id == generation_id and ids and set(ids) != set(group.members):
            raise Violation("leader-told-wrong", f"{group_id}: {ids}, members are {list(group.members)}")

    def _owner(self, member_id: str) -> str:
        return self._instances.get(member_id, member_id)

    def _inconsistent(self, call: Call, group: Group | None) -> None:
        if group is None or not group.members:
            raise Violation("error-unfounded", f"{call.asked}: INCONSISTENT_GROUP_PROTOCOL in a group without members")
        common = set.intersection(*(set(member.protocols) for member in group.members.values()))
        offered = {protocol.name for protocol in call.request.protocols}
        if common & offered and call.request.protocol_type == group.protocol_type:
            raise Violation("error-unfounded", f"{call.asked}: INCONSISTENT_GROUP_PROTOCOL, all support {common}")

    def _sync(self, call: Call) -> None:
        request, group_id = call.request, call.group_id
        value = self._ledger.groups.get(group_id)
        if value is None or value.generation != request.generation_id:
            raise Violation(
                "assignment-not-written", f"{group_id}: generation {request.generation_id} is not in the log"
            )
        written = {member.member_id: member.assignment for member in value.members}
        if written.get(request.member_id) != call.response.assignment:
            raise Violation("assignment-not-written", f"{group_id}: {request.member_id} is given what was not written")
        generation_id, owners = self._given.get(group_id, (-1, {}))
        if generation_id != request.generation_id:
            owners = {}
        owner = self._owner(request.member_id)
        for partition in owned_in(call.response.assignment):
            other = owners.setdefault(partition, owner)
            if other != owner:
                text = f"{group_id} generation {request.generation_id}: {partition} for {other} and {owner}"
                raise Violation("partition-twice", text)
        self._given[group_id] = (request.generation_id, owners)

    def _heartbeat(self, error: ErrorCode, group: Group | None) -> None:
        if group is None:
            return
        if error is ErrorCode.NONE and group.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            raise Violation("heartbeat-wrong", f"{group.group_id}: NONE in {group.state}")
        if error is ErrorCode.REBALANCE_IN_PROGRESS and group.state is not GroupState.PREPARING_REBALANCE:
            raise Violation("heartbeat-wrong", f"{group.group_id}: REBALANCE_IN_PROGRESS in {group.state}")

    def _commit(self, call: Call, now: Now) -> None:
        wanted = self._wanted(call, now)
        for topic in call.response.topics:
            name = topic.name or self._catalog.topic_name(topic.topic_id) or ""
            for partition in topic.partitions:
                key = (call.group_id, name, partition.partition_index)
                if partition.error_code == ErrorCode.NONE and self._ledger.offsets.get(key) != wanted[key]:
                    raise Violation(
                        "commit-lost", f"{key}: acknowledged {wanted[key]}, written {self._ledger.offsets.get(key)}"
                    )

    def _fetch(self, call: Call) -> None:
        response = call.response
        topics = response.groups[0].topics if call.asked.version >= 8 else response.topics
        for topic in topics:
            topic_id = getattr(topic, "topic_id", bytes(16))
            name = topic.name or self._catalog.topic_name(topic_id) or ""
            for partition in topic.partitions:
                if partition.error_code != ErrorCode.NONE:
                    continue
                entry = self._ledger.offsets.get((call.group_id, name, partition.partition_index))
                is_hidden = (
                    entry is not None and bytes(16) not in (topic_id, entry.topic_id) and entry.topic_id != topic_id
                )
                expected: tuple[Any, ...] = (-1, "")
                if entry is not None and not is_hidden:
                    expected = (entry.offset, entry.metadata)
                found = (partition.committed_offset, partition.metadata)
                if found != expected:
                    where = f"{call.group_id} {name}-{partition.partition_index}"
                    raise Violation("commit-goes-back", f"{where}: fetched {found}, last acknowledged {expected}")

    def _describe(self, response: Any) -> None:
        for described in response.groups:
            if described.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                continue
            is_there = described.group_id in self._ledger.known
            if is_there != (described.group_state != "Dead"):
                raise Violation("describe-wrong", f"{described.group_id}: {described.group_state}")

    def _offset_delete(self, call: Call) -> None:
        for topic in call.response.topics:
            for partition in topic.partitions:
                key = (call.group_id, topic.name, partition.partition_index)
                if partition.error_code == ErrorCode.NONE and key in self._ledger.offsets:
                    raise Violation("delete-untrue", f"{key} is still there")

    def _refusal(self, call: Call, error: ErrorCode, member_id: str, group: Group) -> None:
        """Nobody is refused for what is not so."""
        request = call.request
        match error:
            case ErrorCode.UNKNOWN_MEMBER_ID:
                is_founded = member_id not in group.members or call.asked.verb == "leave"
            case ErrorCode.FENCED_INSTANCE_ID:
                instance_id = getattr(request, "group_instance_id", None)
                is_founded = instance_id is None or group.static_members.get(instance_id) != member_id
            case ErrorCode.ILLEGAL_GENERATION:
                asked = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", None))
                is_founded = asked != group.generation_id
            case _:
                is_founded = True
        if not is_founded:
            raise Violation("error-unfounded", f"{call.asked}: {error.name} to {member_id}")
