"""Members that are closed and do not leave: those of Kafka Streams, and consumers that are told to remain in their group.

Their sessions expire as if they had been killed. What they sent last tells that they were closed: the end of their session of fetches,
or, where only a log and commits are known, a commit before their timer was due.
"""

from __future__ import annotations

import re

from kshim.explain.facts import CLOSED, Fact, Kind, Known

OF_STREAMS = re.compile(r"-StreamThread-\d+-consumer$")
"""The end of the client id of a thread of Kafka Streams, in front of which stands the id of its process."""

_COMMIT_MS = 30_000
"""Default of `commit.interval.ms` of Kafka Streams: a thread commits so often, and as it is closed."""
_TELLING_MS = 5_000
"""Of threads that commit more often than this, as they do for exactly once, the last commit tells nothing."""
_CLOSING_MS = 2_000
"""How long a thread may take to close its state between its last commit and its last heartbeat."""
_DUE = 0.9
"""A commit that comes after so much of the usual pause is that of the timer."""
_LATE = 1.5
"""Who has not committed for so many times the usual pause had nothing to commit."""
_TIMER_MS = 100
"""How much later than it is due a broker may notice that a session has expired."""


def with_closed(fact: Fact, known: Known) -> Fact:
    """A session that expired, as the departure in order that it was, if the member had been closed. Static members never leave."""
    member = fact.member
    if fact.kind is not Kind.EXPIRED or member is None or member.instance_id is not None:
        return fact
    if fact.activity is not None:
        is_closed = fact.activity.has_fetch_session is False
    else:
        is_closed = _is_of_streams(fact) and _ended_with_commit(fact, known)
    return fact._replace(kind=Kind.LEFT, reason=CLOSED) if is_closed else fact


def may_be_closed(fact: Fact, known: Known) -> bool:
    """Whether nothing tells if a member of Kafka Streams was closed or killed: it may have had nothing to commit."""
    if fact.kind is not Kind.EXPIRED or fact.activity is not None or not _is_of_streams(fact):
        return False
    silent_ms = _silent_before_expiry_ms(fact, known)
    return silent_ms is None or silent_ms <= _closing_ms(fact) or silent_ms > _LATE * _usual_ms(fact)


def _is_of_streams(fact: Fact) -> bool:
    member = fact.member
    return member is not None and member.instance_id is None and OF_STREAMS.search(member.client_id or "") is not None


def _ended_with_commit(fact: Fact, known: Known) -> bool:
    """Whether it was last heard of just after a commit that came before its timer was due."""
    silent_ms = _silent_before_expiry_ms(fact, known)
    return (
        silent_ms is not None and -_TIMER_MS <= silent_ms <= _closing_ms(fact) + fact.late_ms and not _is_regular(fact)
    )


def _is_regular(fact: Fact) -> bool:
    found = fact.committed
    if found is None or found.before_ms is None:
        return False
    # Rebalances make pauses shorter, and of few of them the usual one is no better known than the default.
    return found.last_ms - found.before_ms > _DUE * max(_usual_ms(fact), _COMMIT_MS)


def _closing_ms(fact: Fact) -> float:
    return min(_CLOSING_MS, _usual_ms(fact) / 10)


def _silent_before_expiry_ms(fact: Fact, known: Known) -> int | None:
    """How long after its last commit its session began for the last time; None: its commits tell nothing."""
    found = fact.committed
    if found is None or found.is_none or not fact.is_observed or fact.member is None or _usual_ms(fact) < _TELLING_MS:
        return None
    return fact.ts_ms - known.session_ms(fact.member.member_id) - found.last_ms


def _usual_ms(fact: Fact) -> int:
    return (fact.committed and fact.committed.usual_ms) or _COMMIT_MS
