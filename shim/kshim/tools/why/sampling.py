"""Asks a cluster's coordinators for the states and members of groups: a few small requests each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kshim.explain.sources.samples import Sample
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_groups import DescribeGroupsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.list_groups import ListGroupsRequest

_GROUPS_OF_A_REQUEST = 100
_SETTLED = ("Stable", "Empty", "Dead")
_CLASSIC = ("", "classic")

Address = tuple[str, int]


class Sampler:
    """Samples one group, or all.

    One group: one DescribeGroups each time, to its coordinator. All: one ListGroups to each broker, and a DescribeGroups for every hundred
    groups that rebalance, or that it has not seen before: the members of a Stable group are in its record. Groups of
    the new protocol are not described: their heartbeats change them without a rebalance of all.
    """

    def __init__(self, logs: BrokerLogs, group: str | None) -> None:
        self._logs = logs
        self._group = group
        self._coordinator: Address | None = None
        self._seen: set[str] = set()

    def take(self, now_ms: int) -> list[Sample]:
        """A sample of each group. Raises SourceError."""
        if self._group is None:
            return [sample for node in self._logs.nodes() for sample in self._of_node(node, now_ms)]
        found = list(self._described(self._home(), [self._group], now_ms))
        if not found:
            self._coordinator = None  # it has moved: look for it next time
        return found

    def _home(self) -> Address:
        if self._coordinator is None:
            answer = self._logs.ask(None, FindCoordinatorRequest(key=self._group or "", key_type=0))
            if answer.error_code != ErrorCode.NONE:
                raise SourceError(f"the group {self._group} has no coordinator: {ErrorCode(answer.error_code).name}")
            self._coordinator = (answer.host, answer.port)
        return self._coordinator

    def _of_node(self, node: Address, now_ms: int) -> Iterator[Sample]:
        answer = self._logs.ask(node, ListGroupsRequest())
        listed = {row.group_id: row.group_state for row in answer.groups if row.group_type in _CLASSIC}
        wanted = [name for name, state in listed.items() if state not in _SETTLED or name not in self._seen]
        self._seen |= listed.keys()
        described: set[str] = set()
        for start in range(0, len(wanted), _GROUPS_OF_A_REQUEST):
            for sample in self._described(node, wanted[start : start + _GROUPS_OF_A_REQUEST], now_ms):
                described.add(sample.group)
                yield sample
        for name, state in listed.items():
            if name not in described:
                yield Sample(now_ms, name, state, None)

    def _described(self, node: Address, names: Iterable[str], now_ms: int) -> Iterator[Sample]:
        for row in self._logs.ask(node, DescribeGroupsRequest(groups=tuple(names))).groups:
            if row.error_code == ErrorCode.NONE:
                members = frozenset(member.member_id for member in row.members)
                yield Sample(now_ms, row.group_id, row.group_state, members)
