"""One group's rows in order: identities, members at a time, and when a member was last active."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kshim_pipeline.diagnosis.signals import Kind, Member, Signal, Snapshot

ASSUMED_SESSION_TIMEOUT_MS = 45_000
"""Kafka's client default, for a group whose records are gone."""

ASSUMED_REBALANCE_TIMEOUT_MS = 300_000
"""As above: max.poll.interval.ms."""

_UUID_CHARACTERS = 36
_SKEW_MS = 2
"""A record may be stamped that much before the line about it."""

_GONE = {Kind.LEFT, Kind.EXPIRED, Kind.KICKED}


class Client(NamedTuple):
    """The client of a member id. `host` None: unknown."""

    client_id: str
    host: str | None
    instance_id: str | None

    @property
    def name(self) -> str:
        """The name an operator knows it by."""
        return self.instance_id or (f"{self.client_id}@{self.host}" if self.host else self.client_id)


class GroupHistory:
    """Signals and snapshots of one group, both in order of time."""

    def __init__(self, group_id: str, signals: Iterable[Signal], snapshots: Iterable[Snapshot]) -> None:
        self.group_id = group_id
        self.snapshots = sorted(snapshots, key=_ts_ms)
        self.signals = [self._with_new_id(signal) for signal in sorted(signals, key=_order)]
        self._members: dict[str, Member] = {
            member.member_id: member for snapshot in self.snapshots for member in snapshot.members
        }
        self._signalled = _clients_of(self.signals)
        self._joined = {s.member_id for s in self.signals if s.kind in (Kind.JOINED, Kind.REPLACED)}
        self._commits = _commits_of(self.snapshots)
        members = self._members.values()
        self.session_ms = max((m.session_timeout_ms for m in members), default=ASSUMED_SESSION_TIMEOUT_MS)
        self.rebalance_ms = max((m.rebalance_timeout_ms for m in members), default=ASSUMED_REBALANCE_TIMEOUT_MS)
        self.gives_reasons = any(signal.client_reason and signal.is_observed for signal in self.signals)
        """Whether its clients say why they come and go, so that silence about it means something, too."""
        self.is_cooperative = any("cooperative" in (snapshot.protocol or "") for snapshot in self.snapshots)

    @property
    def quiet_ms(self) -> int:
        """No incident is without signals for longer than this: later signals are another incident."""
        return round(1.25 * max(self.session_ms, self.rebalance_ms))

    def client(self, member_id: str) -> Client:
        """The client of a member id, as far as it is known."""
        known = self._signalled.get(member_id)
        if known is not None and known.host is not None:
            return known  # a record of a replaced static member still has the client and host of its first life
        member = self._members.get(member_id)
        if member is not None:
            return Client(member.client_id, member.host, member.instance_id)
        instance_id = known.instance_id if known else None
        client_id = known.client_id if known and known.client_id else member_id[: -_UUID_CHARACTERS - 1]
        return Client(client_id, self._only_host_of(client_id), instance_id)

    def last_commit_ms(self, member_id: str, before_ms: int) -> int | None:
        """The member's last commit until then; None: there is none."""
        commits = self._commits.get(member_id, [])
        at = bisect.bisect_right(commits, before_ms)
        return commits[at - 1] if at else None

    def has_partitions(self, member_id: str) -> bool:
        """Whether the member owned partitions in the latest snapshot."""
        member = self._members.get(member_id)
        return member is not None and bool(member.partitions)

    def silent_since_ms(self, signal: Signal) -> int:
        """When the member of a signal was last active, at the latest the time of the signal."""
        if signal.kind is Kind.EXPIRED:
            return signal.ts_ms - self._session_of(signal.member_id)
        if signal.kind in _GONE and signal.member_id is not None:
            # Without records nothing is committed: no member is silent for longer than its timeouts allow.
            since_ms = self.last_commit_ms(signal.member_id, signal.ts_ms) or signal.ts_ms
            return max(since_ms, signal.ts_ms - max(self.session_ms, self.rebalance_ms))
        if signal.kind in (Kind.JOIN_OVER, Kind.SYNC_OVER):
            return signal.ts_ms - (signal.wait_ms or 0)
        return signal.ts_ms

    def snapshot_before(self, ts_ms: int) -> Snapshot | None:
        """The last snapshot until then."""
        at = bisect.bisect_right(self.snapshots, ts_ms, key=_ts_ms)
        return self.snapshots[at - 1] if at else None

    def episodes(self) -> Iterator[list[Signal]]:
        """Signals with less than `quiet_ms` between them. An episode starts when a member went silent, not when it was noticed."""
        episode: list[Signal] = []
        end_ms = 0
        for signal in self.signals:
            if episode and self.silent_since_ms(signal) - end_ms > self.quiet_ms:
                yield episode
                episode = []
            episode.append(signal)
            end_ms = max(end_ms, signal.ts_ms)
        if episode:
            yield episode

    def is_known(self, member_id: str) -> bool:
        """Whether it was ever a member: a member id may be issued and never used."""
        return member_id in self._members or member_id in self._joined

    def _with_new_id(self, signal: Signal) -> Signal:
        """A log has only the old id of a static member that rejoined; the record written then has the new one."""
        if signal.kind is not Kind.REPLACED or signal.member_id is not None:
            return signal
        for snapshot in self.snapshots[bisect.bisect_left(self.snapshots, signal.ts_ms - _SKEW_MS, key=_ts_ms) :]:
            for member in snapshot.members:
                if member.instance_id == signal.instance_id and member.member_id != signal.other_id:
                    return signal._replace(member_id=member.member_id)
        return signal._replace(member_id=signal.other_id)

    def _session_of(self, member_id: str | None) -> int:
        member = self._members.get(member_id or "")
        return member.session_timeout_ms if member else self.session_ms

    def _only_host_of(self, client_id: str) -> str | None:
        hosts = {member.host for member in self._members.values() if member.client_id == client_id}
        return hosts.pop() if len(hosts) == 1 else None


def _ts_ms(snapshot: Snapshot) -> int:
    return snapshot.ts_ms


def _order(signal: Signal) -> tuple[int, int]:
    return signal.ts_ms, signal.evidence.offset if signal.evidence is not None and signal.is_observed else 0


def _clients_of(signals: list[Signal]) -> dict[str, Client]:
    found: dict[str, Client] = {}
    for signal in signals:
        if signal.member_id is not None and (signal.client_id or signal.instance_id):
            known = found.get(signal.member_id)
            if known is None or known.host is None:
                found[signal.member_id] = Client(signal.client_id or "", signal.host, signal.instance_id)
    return found


def _commits_of(snapshots: list[Snapshot]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for snapshot in snapshots:
        for member in snapshot.members:
            if member.last_commit_ms is not None:
                found.setdefault(member.member_id, []).append(member.last_commit_ms)
    return {member_id: sorted(commits) for member_id, commits in found.items()}
