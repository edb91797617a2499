"""What the members of a consumer group subscribe to: the one thing the coordinator reads of their metadata."""

from __future__ import annotations

from collections.abc import Iterable

from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription

_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of the subscriptions, or None when one of them cannot be read.

    Whatever the version, only the rows of v0 are read, as Kafka's coordinator does.
    """
    read = codec(ConsumerProtocolSubscription, 0).parse
    topics: set[str] = set()
    for data in metadata:
        try:
            subscription, _ = read(data, _VERSION_BYTES)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
