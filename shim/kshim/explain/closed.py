"""Members that are closed and do not leave: those of Kafka Streams, and consumers that are told to remain in their group.

Their sessions expire as if they had been killed. How they ended tells that they were closed: their last request was what a consumer
sends as it closes.
"""

from __future__ import annotations

import re

from kshim.explain.facts import CLOSED, Fact, Kind, Known

OF_STREAMS = re.compile(r"-StreamThread-\d+-consumer$")
"""The end of the client id of a thread of Kafka Streams, in front of which stands the id of its process."""

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


def may_be_closed(fact: Fact) -> bool:
    """Whether nothing tells if a member of Kafka Streams was closed: it may have had nothing to commit."""
    is_silent = fact.committed is None or fact.committed.is_none
    return fact.kind is Kind.EXPIRED and fact.activity is None and is_silent and _is_of_streams(fact)


def _is_of_streams(fact: Fact) -> bool:
    member = fact.member
    return member is not None and member.instance_id is None and OF_STREAMS.search(member.client_id or "") is not None


def _ended_with_commit(fact: Fact, known: Known) -> bool:
    """Whether a session began for the last time with a commit: a thread commits every half minute, and as it is closed."""
    found = fact.committed
    if found is None or found.is_none or not fact.is_observed or fact.member is None:
        return False
    return abs(fact.ts_ms - known.session_ms(fact.member.member_id) - found.last_ms) <= _TIMER_MS
