"""Asks a cluster's coordinators for the states and members of groups: a few small requests each time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from time import monotonic

from kshim.explain.facts import Member
from kshim.explain.sources.samples import REBALANCING, Sample
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kshim_protocol.messages.consumer_group_describe import Member as DescribedMember
from kshim_protocol.messages.describe_groups import DescribedGroupMember, DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest

GROUPS_KEPT = 10_000
"""Of each broker; those that rebalance before others."""
_GROUPS_OF_A_REQUEST = 100
_SETTLED = ("Stable", "Empty", "Dead")
_CLASSIC = "classic"
_CONSUMER = "consumer"

Address = tuple[str, int]


class Sampler:
    """Samples groups that are named, or all.

    Named: one DescribeGroups each time to each of their coordinators. All: one ListGroups to each broker, and a request for
    every hundred groups that rebalance, or that it has not seen before: the members of a Stable group are in its record.
    Those of groups of the new protocol are not: a hundred of them that are Stable are described each time, in turn. A glance
    asks for those alone that rebalance.
    """

    def __init__(self, logs: BrokerLogs, groups: frozenset[str] | None) -> None:
        self._logs = logs
        self._groups = groups
        self._homes: dict[str, Address] = {}
        self._types: dict[str, str] = {}
        self._seen: dict[Address, dict[str, None]] = {}
        self._rebalancing: dict[Address, dict[str, str]] = {}
        """Types of groups that rebalanced when they were looked at last."""
        self._ahead_ms = 0.0
        """How far the clock is ahead of the one that never goes back."""
        self.left_out_count = 0
        """Groups that were listed, and are more than are kept."""

    def take(self, now_ms: int) -> list[Sample]:
        """A sample of each group, each with the time of its answer: a broker that is not there lets some wait for long. Raises SourceError."""
        self._ahead_ms = now_ms - monotonic() * 1_000
        if self._groups is None:
            self.left_out_count = 0
            nodes = self._logs.nodes()
            self._seen = {node: self._seen.get(node, {}) for node in nodes}
            self._rebalancing = {node: self._rebalancing.get(node, {}) for node in nodes}
            return [sample for node in nodes for sample in self._of_node(node)]
        by_home: dict[Address, list[str]] = defaultdict(list)
        for name in sorted(self._groups):
            by_home[self._home(name)].append(name)
        found = [sample for home, names in by_home.items() for sample in self._named(home, names)]
        for name in self._groups - {sample.group for sample in found}:
            del self._homes[name]  # it has moved: look for it next time
        return found

    def glance(self, now_ms: int) -> list[Sample]:
        """A sample of each group that is named, or that rebalances or has just done so, between two times at which all are taken.

        Raises SourceError.
        """
        if self._groups is not None:
            return self.take(now_ms)
        self._ahead_ms = now_ms - monotonic() * 1_000
        return [sample for node in self._seen for sample in self._that_rebalance(node)]

    def _that_rebalance(self, node: Address) -> Iterator[Sample]:
        rows = self._logs.ask(node, ListGroupsRequest(states_filter=REBALANCING)).groups
        listed_ms = self._now_ms()
        before = self._rebalancing[node]
        # A broker that is older than the filter answers with all groups, without states.
        now = {row.group_id: row.group_type.lower() or _CLASSIC for row in rows if row.group_state in REBALANCING}
        now = dict(islice(now.items(), GROUPS_KEPT))
        for describe, kind in ((self._classic, _CLASSIC), (self._of_epochs, _CONSUMER)):
            yield from describe(node, [name for name in now if now[name] == kind])
        for name in before.keys() - now.keys():
            yield Sample(listed_ms, name, "Stable", None, before[name])
        self._rebalancing[node] = now

    def _now_ms(self) -> int:
        return int(self._ahead_ms + monotonic() * 1_000)

    def _home(self, group: str) -> Address:
        if group not in self._homes:
            answer = self._logs.ask(None, FindCoordinatorRequest(key=group, key_type=0))
            if answer.error_code != ErrorCode.NONE:
                raise SourceError(f"the group {group} has no coordinator: {ErrorCode(answer.error_code).name}")
            self._homes[group] = (answer.host, answer.port)
        return self._homes[group]

    def _named(self, node: Address, names: Sequence[str]) -> Iterator[Sample]:
        """A coordinator knows no classic group of a name, so it may be one of the new protocol, and the other way round."""
        unknown: list[Sample] = []
        for sample in self._classic(node, [name for name in names if self._types.get(name) != _CONSUMER]):
            if sample.state == "Dead":
                unknown.append(sample)
            else:
                yield sample
        wanted = [name for name in names if self._types.get(name) == _CONSUMER] + [each.group for each in unknown]
        described = {sample.group: sample for sample in self._of_epochs(node, wanted)}
        self._types = {name: kind for name, kind in self._types.items() if name not in wanted}
        self._types |= dict.fromkeys(described, _CONSUMER)
        yield from described.values()
        yield from (each for each in unknown if each.group not in described)

    def _of_node(self, node: Address) -> Iterator[Sample]:
        seen = self._seen[node]
        rows = self._logs.ask(node, ListGroupsRequest()).groups
        listed_ms = self._now_ms()
        if len(rows) > GROUPS_KEPT:
            self.left_out_count += len(rows) - GROUPS_KEPT
            rows = sorted(rows, key=lambda row: (row.group_state in _SETTLED, row.group_id not in seen, row.group_id))
            rows = rows[:GROUPS_KEPT]
        listed = {row.group_id: (row.group_state, row.group_type.lower() or _CLASSIC) for row in rows}
        self._rebalancing[node] = {name: kind for name, (state, kind) in listed.items() if state in REBALANCING}
        wanted: dict[str, list[str]] = {_CLASSIC: [], _CONSUMER: []}
        for name, (state, kind) in listed.items():
            if kind in wanted and (state not in _SETTLED or name not in seen):
                wanted[kind].append(name)
        stable = (name for name in seen if listed.get(name) == ("Stable", _CONSUMER))
        wanted[_CONSUMER] += islice(stable, _GROUPS_OF_A_REQUEST)
        asked = {name for names in wanted.values() for name in names}
        # In the order in which they were last asked for, so that all have their turn.
        waiting = [name for name in seen if name in listed and name not in asked]
        self._seen[node] = dict.fromkeys([*waiting, *(name for name in listed if name in asked or name not in seen)])
        described: set[str] = set()
        for describe, kind in ((self._classic, _CLASSIC), (self._of_epochs, _CONSUMER)):
            for sample in describe(node, wanted[kind]):
                described.add(sample.group)
                yield sample
        for name, (state, kind) in listed.items():
            if name not in described:
                yield Sample(listed_ms, name, state, None, kind)

    def _classic(self, node: Address, names: Sequence[str]) -> Iterator[Sample]:
        for part in _parts(names):
            rows = self._logs.ask(node, DescribeGroupsRequest(groups=part)).groups
            now_ms = self._now_ms()
            for row in rows:
                if row.error_code == ErrorCode.NONE:
                    yield Sample(now_ms, row.group_id, row.group_state, tuple(map(_member, row.members)))

    def _of_epochs(self, node: Address, names: Sequence[str]) -> Iterator[Sample]:
        if not names or not self._logs.serves(node, ConsumerGroupDescribeRequest):
            return
        for part in _parts(names):
            rows = self._logs.ask(node, ConsumerGroupDescribeRequest(group_ids=part)).groups
            now_ms = self._now_ms()
            for row in rows:
                if row.error_code == ErrorCode.NONE:
                    members = tuple(map(_member, row.members))
                    behind = tuple(map(_member, _awaited(row)))
                    yield Sample(now_ms, row.group_id, row.group_state, members, _CONSUMER, row.group_epoch, behind)


def _awaited(group: DescribedGroup) -> list[DescribedMember]:
    """Who has not reached the epoch, because it has still to give up partitions; if nobody, who has not got its own.

    Nobody, while the coordinator has still to assign.
    """
    if group.assignment_epoch != group.group_epoch:
        return []
    late = [each for each in group.members if each.member_epoch != group.group_epoch]
    return late or [each for each in group.members if each.assignment != each.target_assignment]


def _parts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(names), _GROUPS_OF_A_REQUEST):
        yield tuple(names[start : start + _GROUPS_OF_A_REQUEST])


def _member(row: DescribedGroupMember | DescribedMember) -> Member:
    instance_id = row.group_instance_id if isinstance(row, DescribedGroupMember) else row.instance_id
    return Member(row.member_id, instance_id, row.client_id, row.client_host.removeprefix("/"))
