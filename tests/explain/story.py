"""Facts of groups, written down as a story."""

from __future__ import annotations

from typing import Any

from kshim.explain import Incident, Known, explain
from kshim.explain.facts import (
    Activity,
    Committed,
    Fact,
    Kind,
    Member,
    Phases,
    Profile,
    Subscription,
    TopicChange,
)

SESSION_MS = 45_000
REBALANCE_MS = 300_000
SECOND = 1_000
MINUTE = 60 * SECOND


class Story:
    """What happened, in the order of calls. Times are ms from its beginning."""

    def __init__(
        self, *, session_ms: int = SESSION_MS, rebalance_ms: int = REBALANCE_MS, source: str | None = None
    ) -> None:
        """`source`: of all facts, instead of one for each."""
        self._source = source
        self._timeouts = (session_ms, rebalance_ms)
        self._facts: list[Fact] = []
        self._profiles: dict[str, Profile] = {}
        self._ids = 0
        self._members: dict[tuple[str, str], list[Member]] = {}

    def in_record(self, source: str) -> Story:
        """All that follows is from this record."""
        self._source = source
        return self

    def joins(
        self,
        at_ms: int,
        client: str,
        *,
        group: str = "billing",
        host: str | None = "10.0.0.1",
        static: bool = False,
        says: str | None = None,
        connection: str | None = None,
        opened_ms: int | None = None,
        topics: tuple[str, ...] = ("orders",),
        assignor: str = "range",
        session_ms: int | None = None,
        member_id: str | None = None,
        late_ms: int = 0,
        completes: bool = True,
    ) -> Story:
        """A client becomes a member. `completes`: the rebalance is over soon after it."""
        self._ids += 1
        member = Member(member_id or f"{client}-{self._ids}", client if static else None, client, host)
        self._members.setdefault((group, client), []).append(member)
        timeouts = (session_ms or self._timeouts[0], self._timeouts[1])
        self._profiles[member.member_id] = Profile(member, *timeouts, topics)
        activity = (
            None if connection is None else _activity(connection, at_ms, opened_ms if opened_ms is not None else at_ms)
        )
        subscription = Subscription(
            topics, assignors=(assignor,), session_timeout_ms=timeouts[0], rebalance_timeout_ms=timeouts[1]
        )
        fields = {"client_reason": says, "activity": activity, "subscription": subscription, "late_ms": late_ms}
        self._add(at_ms, group, Kind.JOINED, member, **fields)
        return self.completes(at_ms + 100, group=group, protocol=assignor) if completes else self

    def replaces(
        self,
        at_ms: int,
        client: str,
        *,
        group: str = "billing",
        host: str = "10.0.0.1",
        activity: Activity | None = None,
        committed: Committed | None = None,
        says: str | None = None,
    ) -> Story:
        """A process joins with the instance id of a member."""
        self._ids += 1
        old = self._members[group, client].pop(0)
        member = Member(f"{client}-{self._ids}", client, client, host)
        self._members[group, client].append(member)
        self._profiles[member.member_id] = Profile(member, *self._timeouts, ("orders",))
        fields = {"other_id": old.member_id, "activity": activity, "committed": committed, "client_reason": says}
        return self._add(at_ms, group, Kind.REPLACED, member, **fields)

    def is_heard_of(self, at_ms: int, member: Member, group: str = "billing") -> Story:
        """A process sends a request for a member that another process has replaced, or whose session has expired."""
        return self._add(at_ms, group, Kind.HEARD, member)

    def ends_join(self, at_ms: int, *, join_ms: int) -> Story:
        """A phase JOIN ends, and no assignment follows."""
        phases = Phases(join_ms, None, None, None, None, None)
        return self._add(at_ms, "billing", Kind.JOIN_COMPLETED, None, phases=phases)

    def is_refused(
        self,
        at_ms: int,
        client: str,
        *,
        host: str = "10.0.0.1",
        reason: str = "inconsistent_group_protocol",
        subscription: Subscription | None = None,
    ) -> Story:
        """A client that is no member asks to join, and may not."""
        member = Member("", None, client, host)
        return self._add(at_ms, "billing", Kind.NOT_ADMITTED, member, reason=reason, subscription=subscription)

    def member(self, client: str, group: str = "billing") -> Member:
        """The member that a client is now."""
        return self._members[group, client][-1]

    def leaves(
        self,
        at_ms: int,
        client: str,
        *,
        group: str = "billing",
        says: str | None = None,
        activity: Activity | None = None,
        reason: str = "",
        committed: Committed | None = None,
        late_ms: int = 0,
        completes: bool = True,
    ) -> Story:
        """A member sends LeaveGroup. `completes`: the rebalance is over soon after it."""
        member = self._members[group, client].pop(0)
        self._add(
            at_ms,
            group,
            Kind.LEFT,
            member,
            client_reason=says,
            activity=activity,
            reason=reason,
            committed=committed,
            late_ms=late_ms,
        )
        return self.completes(at_ms + 3_000, group=group) if completes else self

    def expires(
        self,
        at_ms: int,
        client: str,
        *,
        group: str = "billing",
        activity: Activity | None = None,
        state: str = "Stable",
        committed: Committed | None = None,
        late_ms: int = 0,
        completes: bool = True,
    ) -> Story:
        """The session of a member times out. `completes`: the rebalance is over soon after it."""
        member = self._members[group, client].pop(0)
        fields = {"activity": activity, "state": state, "committed": committed, "late_ms": late_ms}
        self._add(at_ms, group, Kind.EXPIRED, member, **fields)
        return self.completes(at_ms + 3_000, group=group) if completes else self

    def is_removed(self, at_ms: int, client: str, *, group: str = "billing", activity: Activity | None = None) -> Story:
        """A member does not join again within the rebalance timeout."""
        member = self._members[group, client].pop(0)
        self._add(at_ms, group, Kind.REMOVED, member, reason="rebalance_timeout", activity=activity)
        return self.completes(at_ms + 100, group=group)

    def expires_again(self, at_ms: int, member: Member, activity: Activity | None = None) -> Story:
        """The session of a member times out: one that was gone already, as a broker that had forgotten it sees it, or any other."""
        return self._add(at_ms, "billing", Kind.EXPIRED, member, activity=activity)

    def requests(
        self,
        at_ms: int,
        client: str,
        *,
        says: str | None = None,
        reason: str = "leader_rejoined",
        subscription: Subscription | None = None,
        topic_changes: tuple[TopicChange, ...] | None = None,
    ) -> Story:
        """A member joins again, of its own accord."""
        member = self._members["billing", client][-1]
        return self._add(
            at_ms,
            "billing",
            Kind.REQUESTED,
            member,
            client_reason=says,
            reason=reason,
            subscription=subscription,
            topic_changes=topic_changes,
        ).completes(at_ms + 3_000)

    def converts(self, at_ms: int, reason: str, *, group: str = "billing") -> Story:
        """The group goes over to the other protocol."""
        return self._add(at_ms, group, Kind.REQUESTED, None, reason=reason)

    def loads(self, at_ms: int, *, group: str = "billing", reason: str = "") -> Story:
        """A coordinator reads the group from its log."""
        return self._add(at_ms, group, Kind.LOADED, None, reason=reason)

    def stops(self, at_ms: int, *, group: str = "billing") -> Story:
        """The broker is stopped in good order."""
        return self._add(at_ms, group, Kind.STOPPING, None)

    def empties(self, at_ms: int, *, source: str) -> Story:
        """The last member is gone."""
        self._facts.append(Fact(at_ms, "billing", Kind.EMPTIED, source))
        return self

    def completes(
        self,
        at_ms: int,
        *,
        group: str = "billing",
        waited_for: str | None = None,
        wait_ms: int = 0,
        other_wait_ms: int | None = None,
        told_ms: int | None = None,
        protocol: str = "range",
        join_ms: int | None = None,
        sync_ms: int = 10,
        leader: str | None = None,
        partitions: dict[str, int] | None = None,
        waited_for_pending: bool = False,
    ) -> Story:
        """A rebalance ends."""
        last = None if waited_for is None else self._members[group, waited_for][-1]
        leader_id = None if leader is None else self._members[group, leader][-1].member_id
        phases = Phases(
            wait_ms if join_ms is None else join_ms,
            sync_ms,
            protocol,
            leader_id,
            last,
            None if last is None else wait_ms,
        )._replace(
            partitions=partitions,
            other_wait_ms=other_wait_ms,
            last_told_ms=told_ms,
            waited_for_pending=waited_for_pending,
        )
        return self._add(at_ms, group, Kind.COMPLETED, None, phases=phases)

    def incidents(self, *, is_observed: bool = True, until_ms: int = 0) -> list[Incident]:
        """What explains the story. `until_ms`: until when it is known that nothing more happened."""
        return explain(self.known(is_observed=is_observed, until_ms=until_ms))

    def known(self, *, is_observed: bool = True, until_ms: int = 0) -> Known:
        """All facts of the story."""
        facts = [fact._replace(is_observed=is_observed) for fact in self._facts]
        facts.sort(key=lambda fact: fact.ts_ms)
        return Known(tuple(facts), self._profiles, ("events",), until_ms)

    def causes(self) -> list[tuple[str, tuple[str, ...]]]:
        """The causes in order of time, each with its clients."""
        return [(str(each.cause), each.clients) for each in self.incidents()]

    def _add(self, at_ms: int, group: str, kind: Kind, member: Member | None, **fields: Any) -> Story:
        source = self._source or f"event {len(self._facts)}"
        self._facts.append(Fact(at_ms, group, kind, source, member)._replace(**fields))
        return self


def activity(
    *,
    connection: str = "a",
    last_request_ms: int,
    closed_ms: int | None = None,
    closed_by: str | None = None,
    last_api: str = "Heartbeat",
    last_fetch_ms: int | None = None,
    software: str | None = None,
    has_fetch_session: bool | None = None,
) -> Activity:
    """What the broker knows of a process."""
    return _activity(connection, last_request_ms, 0)._replace(
        closed_ms=closed_ms,
        closed_by=closed_by,
        last_api=last_api,
        last_fetch_ms=last_fetch_ms,
        software=software,
        has_fetch_session=has_fetch_session,
    )


def _activity(connection: str, last_request_ms: int, opened_ms: int) -> Activity:
    return Activity(connection, opened_ms, None, None, last_request_ms, "Heartbeat", None, None)


def a_group_of_three() -> Story:
    """Three members on three hosts, which have joined within a second."""
    return (
        Story()
        .joins(0, "one", host="10.0.0.1", connection="one")
        .joins(300, "two", host="10.0.0.2", connection="two")
        .joins(600, "three", host="10.0.0.3", connection="three")
    )
