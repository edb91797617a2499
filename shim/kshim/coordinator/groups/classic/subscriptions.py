"""What the members of a consumer group subscribe to: the one thing the coordinator reads of their metadata."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription

_VERSION_BYTES: Final = 2
_SHORT_BYTES: Final = 1024
"""Metadata up to this size are remembered; most members of a group, and of groups like it, have the same."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of the subscriptions, or None when one of them cannot be read.

    Whatever the version, only the rows of v0 are read, as Kafka's coordinator does.
    """
    found = {(_topics_of_short if len(data) <= _SHORT_BYTES else _topics_of)(data) for data in set(metadata)}
    if len(found) == 1:
        return found.pop()
    topics: frozenset[str] = frozenset()
    for each in found:
        if each is None:
            return None
        topics |= each
    return topics


def _topics_of(data: bytes) -> frozenset[str] | None:
    try:
        subscription, _ = codec(ConsumerProtocolSubscription, 0).parse(data, _VERSION_BYTES)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


_topics_of_short = lru_cache(maxsize=1024)(_topics_of)
