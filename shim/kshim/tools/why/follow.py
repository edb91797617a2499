"""Watches groups of a running cluster, and says what each incident was when it has ended."""

from __future__ import annotations

from collections import defaultdict

from kshim.explain import Incident, explain
from kshim.explain.disturbances import Key
from kshim.explain.facts import Known
from kshim.explain.sources.samples import Presence
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.why.read import Reading
from kshim.tools.why.sampling import Sampler


class Follower:
    """Polled with `poll`. What had happened before the first one is known, and not told."""

    def __init__(self, logs: BrokerLogs, group: str | None) -> None:
        self._presence: dict[str, Presence] = defaultdict(Presence)
        self._sampler = Sampler(logs, group)
        self._reading = Reading(logs, group, presence=self._presence)
        self._told: set[Key] | None = None
        self.known = Known((), {}, ())
        """What was known at the last poll."""

    def poll(self, now_ms: int) -> list[Incident]:
        """Sample and read once; the incidents that have ended since the last time. Raises SourceError."""
        for sample in self._sampler.take(now_ms):
            self._presence[sample.group].add(sample)
        self._reading.more()
        self.known = known = self._reading.result().known._replace(until_ms=now_ms)
        incidents = explain(known)
        if self._told is None:
            self._told = {each.key for incident in incidents for each in incident.disturbances}
            return []
        told = self._told
        ended = [
            incident
            for incident in incidents
            if any(each.key not in told for each in incident.disturbances) and self._has_ended(incident, known, now_ms)
        ]
        told.update(each.key for incident in ended for each in incident.disturbances)
        return ended

    def _has_ended(self, incident: Incident, known: Known, now_ms: int) -> bool:
        """Whether its groups are in no rebalance, and nothing was added for the longest session timeout of its members."""
        if any(self._presence[name].is_rebalancing for name in incident.groups if name in self._presence):
            return False
        quiet_ms = max(
            known.session_ms(each.member.member_id if each.member is not None else None)
            for each in incident.disturbances
        )
        last_ms = max(incident.to_ms, *(each.fact.ts_ms for each in incident.disturbances))
        return now_ms - last_ms >= quiet_ms
