"""What the detector keeps of one group, and the incidents that follow from it when they have ended. No Spark, no clock."""

from __future__ import annotations

import hashlib
import json
import pickle
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kshim.explain.disturbances import Disturbance
from kshim.explain.document import incident_object
from kshim.explain.facts import Fact, Known
from kshim.explain.incidents import Incident, explain
from kshim.explain.sources.collected import Collected
from kshim.explain.sources.events import fact_of_event
from kshim_protocol.records.record import Record

SETTLED_MS: Final = 15_000
"""An incident has ended when nothing was added to it for so long, and its group is in no rebalance."""

_KEPT_MS: Final = 3_600_000
"""Records and events are kept for so long, and longer only what tells who is in the group now."""
_RECORDS_KEPT: Final = 200
_EVENTS_KEPT: Final = 300
_BYTES_KEPT: Final = 1 << 20
"""Of the values of records and of events, each; the newest that fit, and two of them however large they are."""
_COMMITS_KEPT: Final = 24
"""Times of commits of each partition."""
_PARTITIONS_KEPT: Final = 2_000
"""Partitions of which there are times of commits, those committed last."""
_COMMIT_KEYS: Final = (0, 1)
_Key = tuple[str, ...]
_SETTLED: Final = ("Stable", "Empty", "Dead")
_LATE_MS: Final = 600_000
"""What happened so long before what was known the last time is no news: it looks different because older things were forgotten."""


class Row(NamedTuple):
    """A record of the offsets topic, or an event."""

    ts_ms: int
    offset: int
    key: bytes
    value: bytes | None


class Alert(NamedTuple):
    """An incident that has ended. `identity` is the same each time that it is told: of what happened, not of when that was noticed."""

    identity: str
    document: dict[str, Any]


class Memory:
    """One group: `packed` is all of it, for a store."""

    def __init__(self, group: str, packed: bytes | None = None) -> None:
        self._group = group
        self._records: list[Row] = []
        self._events: list[Row] = []
        self._commits: dict[tuple[str, int], list[int]] = {}
        self._told: dict[_Key, int] = {}
        """When what was told had happened."""
        self._since_ms = 0
        """Older records were forgotten: how the group came to be as it was then is not known any more, and no news."""
        self._is_open = False
        """Whether the group is in a rebalance, as its events say."""
        self._has_news = False
        self._known_until_ms = 0
        """Until when all was known when incidents were last looked for."""
        if packed is not None:
            self.__dict__ |= pickle.loads(packed)

    @property
    def packed(self) -> bytes:
        """What `__init__` takes."""
        return pickle.dumps(self.__dict__, pickle.HIGHEST_PROTOCOL)

    def add(self, records: Iterable[Row], events: Iterable[Row]) -> None:
        """Take in what came, in order, and forget what is old."""
        news = 0
        for row in records:
            if int.from_bytes(row.key[:2], "big") in _COMMIT_KEYS:
                self._add_commit(row)
            else:
                self._records.append(row)
                news += 1
        for row in events:
            self._events.append(row)
            self._is_open = _state_of(row, self._is_open)
            news += 1
        if news:
            self._has_news = True
            self._forget()

    def told(self, now_ms: int, since_ms: int) -> list[Alert]:
        """The incidents that have ended by now, each once. What had happened before `since_ms` is known, and not told."""
        if not self._has_news:
            return []
        known = self._known(now_ms)
        found: list[Alert] = []
        is_waiting = self._is_open
        for incident in explain(known):
            keys = list(map(_key, incident.disturbances))
            last_ms = max(incident.to_ms, *(each.fact.ts_ms for each in incident.disturbances))
            is_old = last_ms <= max(self._since_ms, self._known_until_ms - _LATE_MS)
            if is_old or all(key in self._told for key in keys):
                continue
            if last_ms >= since_ms and (self._is_open or now_ms - last_ms < SETTLED_MS):
                is_waiting = True
                continue
            self._told |= dict.fromkeys(keys, last_ms)
            if last_ms >= since_ms:
                found.append(_alert(self._group, incident, now_ms))
        self._has_news = is_waiting
        self._known_until_ms = self._newest_ms
        self._told = {key: ts_ms for key, ts_ms in self._told.items() if ts_ms > now_ms - 2 * _KEPT_MS}
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether something may be told soon, though nothing more comes."""
        return self._has_news

    @property
    def _newest_ms(self) -> int:
        return max((row.ts_ms for row in (*self._records[-1:], *self._events[-1:])), default=0)

    def _known(self, now_ms: int) -> Known:
        collected = Collected(frozenset({self._group}), snapshots_kept=2 * _RECORDS_KEPT, events_kept=_EVENTS_KEPT)
        for row in self._records:
            collected.records.add(Record(row.key, row.value, timestamp_ms=row.ts_ms, offset=row.offset))
        for place, times in self._commits.items():
            collected.records.commits[self._group][place] = array("q", times)
        collected.events.extend(_facts(self._events))
        return collected.known(lambda _: (), now_ms)._replace(until_ms=now_ms)

    def _add_commit(self, row: Row) -> None:
        place = _place_of(row.key)
        if row.value is None:
            self._commits.pop(place, None)
            return
        times = self._commits.pop(place, [])  # so that those committed last come last
        times.append(row.ts_ms)
        del times[:-_COMMITS_KEPT]
        self._commits[place] = times
        while len(self._commits) > _PARTITIONS_KEPT:
            del self._commits[next(iter(self._commits))]

    def _forget(self) -> None:
        """The newest record of each key tells who is in the group; of the others, the newest are kept."""
        newest_ms = self._newest_ms
        latest = {row.key: row.offset for row in self._records}
        kept = _recent(self._records, newest_ms, _RECORDS_KEPT)
        if kept and len(kept) < len(self._records):
            self._since_ms = kept[0].ts_ms
        recent = {row.offset for row in kept}
        self._records = [
            row
            for row in self._records
            if row.offset in recent or (latest[row.key] == row.offset and row.value is not None)
        ]
        self._events = _recent(self._events, newest_ms, _EVENTS_KEPT)


def _recent(rows: list[Row], newest_ms: int, most: int) -> list[Row]:
    kept: list[Row] = []
    size_bytes = 0
    for row in reversed(rows[-most:]):
        size_bytes += len(row.value or b"")
        if len(kept) >= 2 and (size_bytes > _BYTES_KEPT or row.ts_ms < newest_ms - _KEPT_MS):
            break
        kept.append(row)
    return kept[::-1]


def _facts(events: Iterable[Row]) -> Iterator[Fact]:
    for row in events:
        try:
            fact = fact_of_event(json.loads(row.value or b""))
        except (ValueError, LookupError, TypeError):  # no event: of somebody else, or of a later version
            continue
        if fact is not None:
            yield fact


def _state_of(row: Row, before: bool) -> bool:
    """Whether a group is in a rebalance after an event."""
    try:
        event: Mapping[str, Any] = json.loads(row.value or b"")
        return event["state_to"] not in _SETTLED
    except (ValueError, LookupError, TypeError):
        return before


def _place_of(key: bytes) -> tuple[str, int]:
    """Topic and partition of the key of a commit."""
    topic_at = 4 + int.from_bytes(key[2:4], "big")
    size = int.from_bytes(key[topic_at : topic_at + 2], "big")
    end = topic_at + 2 + size
    return key[topic_at + 2 : end].decode(errors="backslashreplace"), int.from_bytes(key[end : end + 4], "big")


def _key(disturbance: Disturbance) -> _Key:
    """What it is, whatever is known of its times: since when a member had been silent depends on commits, of which few are kept."""
    return tuple(map(str, disturbance.key[:-1]))


def _alert(group: str, incident: Incident, now_ms: int) -> Alert:
    keys = sorted(map(repr, map(_key, incident.disturbances)))
    identity = hashlib.sha256("\n".join((group, *keys)).encode()).hexdigest()[:16]
    document = {"v": 1, "type": "incident", "id": identity, "at_ms": now_ms, "group": group}
    return Alert(identity, document | incident_object(incident))
