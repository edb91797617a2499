"""What a member subscribes to, and how that changed: of the JoinGroup behind an event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from kshim.coordinator.groups.classic.subscriptions import subscribed_topics
from kshim.coordinator.groups.events import Offer, Wish

TOPICS_MAX: Final = 500
"""So many names, in order, are in each list of an event; records of 1 MB are the usual limit of topics."""


class Subscription(NamedTuple):
    """Names of topics in order; `added` and `removed` since what the member said before. Timeouts are null in the new protocol."""

    topics: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    assignors: tuple[str, ...]
    omitted: int
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


def subscription_of(offer: Offer | Wish) -> Subscription | None:
    """The subscription of a JoinGroup or ConsumerGroupHeartbeat; None if it cannot be read."""
    if isinstance(offer, Wish):
        assignors = () if offer.assignor is None else (offer.assignor,)
        before = None if offer.before is None else frozenset(offer.before)
        return _compared(frozenset(offer.topics), before, assignors)
    topics = topics_of(offer)
    if topics is None:
        return None
    found = _compared(topics, None if offer.before is None else _topics(offer.before), tuple(offer.protocols))
    return found._replace(session_timeout_ms=offer.session_timeout_ms, rebalance_timeout_ms=offer.rebalance_timeout_ms)


def _compared(topics: frozenset[str], before: frozenset[str] | None, assignors: tuple[str, ...]) -> Subscription:
    if before is None:
        before = topics
    lists = [sorted(each) for each in (topics, topics - before, before - topics)]
    kept = [tuple(each[:TOPICS_MAX]) for each in lists]
    omitted = sum(map(len, lists)) - sum(map(len, kept))
    return Subscription(kept[0], kept[1], kept[2], assignors, omitted)


def subscription_json(offer: Offer | Wish | None) -> str:
    """As in an event."""
    found = None if offer is None else subscription_of(offer)
    return "null" if found is None else json.dumps(found._asdict(), separators=(",", ":"), ensure_ascii=False)


def topics_of(offer: Offer) -> frozenset[str] | None:
    """What a JoinGroup subscribes to; None if it cannot be read."""
    return _topics(offer.protocols)


def _topics(protocols: Mapping[str, bytes]) -> frozenset[str] | None:
    """Of any protocol: clients send the same topics with all."""
    return next((found for data in protocols.values() if (found := subscribed_topics([data])) is not None), None)
