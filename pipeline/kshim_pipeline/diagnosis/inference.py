"""Signals from records alone: what happened between one snapshot of a group and the next.

A record is written only when a rebalance is over. Its beginning is inferred from commits: active members commit when
they learn of it, a member that closes commits before it leaves, and one that fails just stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kshim_pipeline.diagnosis.history import GroupHistory
from kshim_pipeline.diagnosis.signals import Kind, Member, Signal, Snapshot

SILENT_SHARE = 0.62
"""Who has committed nothing for this share of its session timeout died. Others learn of a rebalance within a third of it."""

POLL_TIMEOUT = "consumer poll timeout has expired (inferred)"


def changes(snapshots: list[Snapshot]) -> Iterator[Signal]:
    """Signals that only records show: changed subscriptions, and added partitions."""
    topics: dict[str, tuple[str, ...]] = {}
    partitions: dict[tuple[str, ...], int] = {}
    for snapshot in snapshots:
        for member in snapshot.members:
            before = topics.get(member.member_id)
            if before is not None and before != member.topics:
                yield _of(snapshot, Kind.RESUBSCRIBED, member)
            topics[member.member_id] = member.topics
        wanted = tuple(sorted({topic for member in snapshot.members for topic in member.topics}))
        count = sum(member.partitions or 0 for member in snapshot.members)
        known = partitions.get(wanted)
        if known is not None and count > known:
            yield Signal(snapshot.ts_ms, Kind.PARTITIONS_ADDED, is_observed=False, evidence=snapshot.evidence)
        partitions[wanted] = max(count, known or 0)


def infer(group_id: str, snapshots: list[Snapshot]) -> list[Signal]:
    """All signals inferred from the snapshots and commits of a group, unordered."""
    history = GroupHistory(group_id, (), snapshots)
    found: list[Signal] = []
    for before, after in pairwise([Snapshot(0, 0, None, None, ()), *snapshots]):
        if before.generation_id == after.generation_id and before.members:
            found += _replaced(before, after)
        else:
            found += _Rebalance(history, before, after).signals()
    return found


def _replaced(before: Snapshot, after: Snapshot) -> list[Signal]:
    """A record of the same generation: static members rejoined with new ids."""
    old = {member.instance_id: member for member in before.members if member.instance_id is not None}
    return [
        _of(after, Kind.REPLACED, member, other_id=old[member.instance_id].member_id)
        for member in after.members
        if member.instance_id in old and old[member.instance_id].member_id != member.member_id
    ]


class _Rebalance:
    """One rebalance, between the snapshots around it."""

    def __init__(self, history: GroupHistory, before: Snapshot, after: Snapshot) -> None:
        self._history = history
        self._before = before
        self._after = after
        self._ended_ms = after.joined_ms if after.joined_ms is not None and after.joined_ms > 0 else after.ts_ms
        ids = {member.member_id for member in after.members}
        old_ids = {member.member_id for member in before.members}
        self._stayed = [member for member in before.members if member.member_id in ids]
        self._gone = [member for member in before.members if member.member_id not in ids]
        self._new = [member for member in after.members if member.member_id not in old_ids]
        last = [(self._last_ms(member), member.member_id) for member in self._stayed]
        self._last = sorted((at, member_id) for at, member_id in last if at is not None and at > before.ts_ms)

    def signals(self) -> list[Signal]:
        began_ms = self._began_ms()
        found = [self._departure(member, began_ms) for member in self._gone]
        for member in self._new:
            at_ms = began_ms
            overlapped = any(member.client == gone.client for gone in self._gone)
            found.append(_of(self._after, Kind.JOINED, member)._replace(ts_ms=min(at_ms, self._ended_ms)))
            if overlapped:
                # The old life was given up in the same rebalance: in silence, the new one had come before that.
                found = [_after_start(signal, member, found[-1].ts_ms) for signal in found]
        if not self._gone and not self._new and self._before.members and not self._is_follow_up():
            leader = self._after.leader_id
            found.append(
                Signal(began_ms, Kind.REJOINED, member_id=leader, is_observed=False, evidence=self._after.evidence)
            )
        return [*found, *self._phases(began_ms)]

    def _began_ms(self) -> int:
        """The approximate beginning: the last commit of a member that closed, or the first commit before rejoining."""
        closed = [at for m in self._gone if (at := self._last_ms(m)) is not None and self._is_fresh(m, at)]
        rejoined = [at for at, _ in self._last]
        return min([*closed, *rejoined, self._ended_ms])

    def _is_fresh(self, member: Member, last_ms: int) -> bool:
        return last_ms > self._before.ts_ms and self._ended_ms - last_ms < SILENT_SHARE * member.session_timeout_ms

    def _departure(self, member: Member, began_ms: int) -> Signal:
        last_ms = self._last_ms(member)
        session_ms = member.session_timeout_ms
        rebalance_ms = max(member.rebalance_timeout_ms, session_ms)
        silent_ms = 0 if last_ms is None else self._ended_ms - last_ms
        signal = _of(self._after, Kind.LEFT, member)._replace(ts_ms=began_ms)
        if last_ms is None or silent_ms < SILENT_SHARE * session_ms:
            return signal
        if (
            member.instance_id is None
            and rebalance_ms > 1.2 * session_ms
            and silent_ms > (session_ms + rebalance_ms) / 2
        ):
            return signal._replace(client_reason=POLL_TIMEOUT)
        skipped = self._after.generation_id - self._before.generation_id > 1
        is_leader = member.member_id == self._before.leader_id
        state = "CompletingRebalance" if skipped and is_leader and self._stayed else "Stable"
        return signal._replace(
            kind=Kind.EXPIRED, state=state, ts_ms=max(began_ms, min(self._ended_ms, last_ms + session_ms))
        )

    def _phases(self, began_ms: int) -> Iterator[Signal]:
        after = self._after
        if after.members and self._last:
            last_ms, member_id = self._last[-1]
            others = self._last[:-1]
            # Half of the others: one that had nothing to commit any more must not make the last one late.
            others_ms = others[len(others) // 2][0] if others else last_ms
            yield Signal(
                self._ended_ms,
                Kind.JOIN_OVER,
                member_id=member_id if others and not self._gone else None,
                wait_ms=last_ms - max(began_ms, others_ms),
                is_observed=False,
                evidence=after.evidence,
            )
        if after.members and after.joined_ms is not None and after.joined_ms > 0:
            yield Signal(
                after.ts_ms,
                Kind.SYNC_OVER,
                member_id=after.leader_id,
                wait_ms=after.ts_ms - after.joined_ms,
                is_observed=False,
                evidence=after.evidence,
            )

    def _last_ms(self, member: Member) -> int | None:
        return self._history.last_commit_ms(member.member_id, self._ended_ms)

    def _is_follow_up(self) -> bool:
        """Whether cooperative members rejoined because they revoked partitions, which had no owner in between."""
        if "cooperative" not in (self._after.protocol or ""):
            return False
        return _assigned(self._after) > _assigned(self._before) and self._after.ts_ms - self._before.ts_ms < (
            self._history.session_ms
        )


def _assigned(snapshot: Snapshot) -> int:
    return sum(member.partitions or 0 for member in snapshot.members)


def _after_start(signal: Signal, member: Member, started_ms: int) -> Signal:
    if signal.kind is Kind.EXPIRED and member.client_id == signal.client_id and member.host == signal.host:
        return signal._replace(ts_ms=max(signal.ts_ms, started_ms + 1))
    return signal


def _of(snapshot: Snapshot, kind: Kind, member: Member, *, other_id: str | None = None) -> Signal:
    return Signal(
        snapshot.ts_ms,
        kind,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        other_id=other_id,
        is_observed=False,
        evidence=snapshot.evidence,
    )
