"""A rebalance of a classic group: its join phase, and who came when."""

from __future__ import annotations

from dataclasses import dataclass, field

from kshim.coordinator.groups.events import Arrivals
from kshim.history.course import Arrival, Course, Ending, arrival_json, entries_json
from kshim.history.json_parts import LIST_MAX_BYTES, fitting, number, text


@dataclass(kw_only=True, eq=False, slots=True)
class Timeline(Course):
    """One rebalance of a classic group, and how it went. What is None is not known before the join phase has ended."""

    initial_delay_ms: int | None
    ending: Ending | None = field(default=None, init=False)
    joined_ms: int = field(default=0, init=False)
    join_ms: int | None = field(default=None, init=False)
    arrivals: Arrivals | None = field(default=None, init=False)
    last_to_join: Arrival | None = field(default=None, init=False)
    leader_id: str | None = field(default=None, init=False)
    _joined_json: tuple[str, str, str] | None = field(default=None, init=False, repr=False)

    def _listed_bytes(self) -> int:
        size_bytes = Course._listed_bytes(self)  # `super()` does not know a class with slots before Python 3.14
        arrivals = self.arrivals
        if arrivals is not None:
            size_bytes += 60 * len(arrivals.members) + 100 * len(arrivals.told_ms)
            if 1 in arrivals.is_new:  # the names of the others are those of earlier rebalances
                newcomers = [member for member, is_new in zip(arrivals.members, arrivals.is_new, strict=True) if is_new]
                size_bytes += sum([600 + 2 * (len(each.member_id) + len(each.client_id)) for each in newcomers])
        return size_bytes

    def joined_json(self) -> tuple[str, str, str]:
        """What the events after the join phase have in common: leader, last member to join, delay and protocol."""
        if self._joined_json is None:
            self._joined_json = (
                f'"leader_id":{text(self.leader_id)},"members":{{"expected":{self.expected},'
                f'"joined":{"null" if self.arrivals is None else len(self.arrivals.members)}',
                f'"last_to_join":{arrival_json(self.last_to_join)}',
                f'"initial_delay_ms":{number(self.initial_delay_ms)},"protocol":{text(self.protocol)}',
            )
        return self._joined_json

    def waits_json(self) -> str:
        """`waits` and `waits_omitted`."""
        arrivals = self.arrivals
        if arrivals is None:
            return '"waits":null,"waits_omitted":0'
        entries = entries_json(arrivals.members, arrivals.is_new, arrivals.wait_ms, arrivals.told_ms)
        kept = entries
        if sum(map(len, entries)) > LIST_MAX_BYTES:
            slowest = sorted(range(len(entries)), key=lambda index: -arrivals.wait_ms[index])
            kept = [entries[index] for index in sorted(fitting(entries, slowest))]
        return f'"waits":[{",".join(kept)}],"waits_omitted":{len(entries) - len(kept)}'
