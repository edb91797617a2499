"""Watches groups of a running cluster, and says what each incident was when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from kshim.explain import Explainer, Incident
from kshim.explain.disturbances import Disturbance, Key
from kshim.explain.facts import Known
from kshim.explain.sources.samples import Looks, Presence
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.why.archive import ArchiveWriter
from kshim.tools.why.read import SNAPSHOTS_OF_ALL, Reading
from kshim.tools.why.sampling import GROUPS_KEPT, Sampler

GLANCE_S = 1.0
"""How often to poll at least: most rebalances take longer than this."""

_SETTLED_MS = 600_000
"""What happened in a group so long before something that was told is not news: what is known of it has changed, because
older records were forgotten."""


class Follower:
    """Polled with `poll`. What had happened before the first one is known, and not told. `groups` None: all."""

    def __init__(
        self,
        logs: BrokerLogs,
        groups: frozenset[str] | None,
        *,
        interval_s: float = 0.0,
        snapshots_kept: int = SNAPSHOTS_OF_ALL,
        archive: ArchiveWriter | None = None,
    ) -> None:
        """`interval_s`: how much time is between two polls at least at which all is read; at others, what rebalances is sampled.

        `archive`: what is read and sampled is written there, too.
        """
        self._archive = archive
        self._interval_ms = interval_s * 1_000
        self._read_ms = 0
        self.read_count = 0
        """How often all was read."""
        self._presence: dict[str, Presence] = {}
        self._looks = Looks()
        self.sampler = Sampler(logs, groups)
        self.reading = Reading(archive or logs, groups, presence=self._presence, snapshots_kept=snapshots_kept)
        self._explainer = Explainer()
        self._news_count = 0
        self._told: dict[Key, int] | None = None
        """When what was told had happened."""
        self._told_until_ms: dict[str, int] = {}
        self.present: Mapping[str, Presence] = {}
        """What samples show of the groups that there were at the last poll."""
        self.incidents: list[Incident] = []
        """All that is known of at the last poll, in order of time, ended or not."""
        self.known = Known((), {}, ())
        """What was known at the last poll."""

    def poll(self, now_ms: int) -> list[Incident]:
        """Sample and read once; the incidents that have ended since the last time. Raises SourceError."""
        if self._told is not None and self._read_ms <= now_ms < self._read_ms + self._interval_ms:
            self._glance(now_ms)
            return []
        self._sample(now_ms)
        self._read_ms = now_ms
        self.read_count += 1
        self.reading.more()
        if self._told is None or self.reading.news_count != self._news_count:
            self._news_count = self.reading.news_count
            self.known = self.reading.result().known
        self.known = self.known._replace(until_ms=now_ms)  # who has not come back by now is news, too
        self.incidents = self._explainer.explain(self.known)
        if self._told is None:
            self._told = {}
            self._tell(self.incidents)
            return []
        ended = [
            incident
            for incident in self.incidents
            if any(map(self._is_news, incident.disturbances)) and self._has_ended(incident, now_ms)
        ]
        self._tell(ended)
        return ended

    def _glance(self, now_ms: int) -> None:
        if self.reading.has_events:
            return  # which tell of it
        samples = self.sampler.glance(now_ms)
        if self._archive is not None:
            self._archive.samples(now_ms, samples)
        for sample in samples:
            self._presence.setdefault(sample.group, Presence(self._looks)).add(sample)
        self._looks.add(now_ms)

    def _sample(self, now_ms: int) -> None:
        present: dict[str, Presence] = {}
        samples = self.sampler.take(now_ms)
        if self._archive is not None:
            self._archive.samples(now_ms, samples)
        for sample in samples:
            if sample.group not in present:
                present[sample.group] = self._presence.pop(sample.group, Presence(self._looks))
            present[sample.group].add(sample)
        self._looks.add(now_ms)
        self._presence.update(present)  # those of other groups now come first
        while len(self._presence) > max(GROUPS_KEPT, 2 * len(present)):
            del self._presence[next(iter(self._presence))]
        self.present = present

    def _is_news(self, each: Disturbance) -> bool:
        assert self._told is not None
        return each.key not in self._told and each.fact.ts_ms > self._told_until_ms.get(each.group, 0) - _SETTLED_MS

    def _tell(self, incidents: list[Incident]) -> None:
        assert self._told is not None
        until_ms = self._told_until_ms
        for each in (each for incident in incidents for each in incident.disturbances):
            self._told[each.key] = each.fact.ts_ms
            until_ms[each.group] = max(until_ms.get(each.group, 0), each.fact.ts_ms)
        if incidents:
            known = {fact.group for fact in self.known.facts}
            self._told_until_ms = {name: ts_ms for name, ts_ms in until_ms.items() if name in known}
            self._told = {
                key: ts_ms
                for key, ts_ms in self._told.items()
                if ts_ms > self._told_until_ms.get(key[0], inf) - _SETTLED_MS
            }

    def _has_ended(self, incident: Incident, now_ms: int) -> bool:
        """Whether its groups are in no rebalance, and nothing was added for the longest session timeout of its members."""
        if any(self._presence[name].is_rebalancing for name in incident.groups if name in self._presence):
            return False
        quiet_ms = max(
            self.known.session_ms(each.member.member_id if each.member is not None else None)
            for each in incident.disturbances
        )
        last_ms = max(incident.to_ms, *(each.fact.ts_ms for each in incident.disturbances))
        return now_ms - last_ms >= quiet_ms
