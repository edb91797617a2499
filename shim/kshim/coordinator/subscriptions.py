"""What the members of a consumer group subscribe to: the one thing the coordinator reads of their metadata."""

from __future__ import annotations

from collections.abc import Iterable

from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.schema import codec

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"
"""Protocol type of groups whose metadata is the embedded consumer protocol."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of the subscriptions, or None when one of them cannot be read.

    Whatever the version, only the rows of v0 are read, as Kafka's coordinator does.
    """
    topics: set[str] = set()
    for data in metadata:
        try:
            topics.update(_parse(data).topics)
        except ProtocolError:
            return None
    return frozenset(topics)


def _parse(data: bytes) -> ConsumerProtocolSubscription:
    if len(data) < 2:
        raise ProtocolError("no version", message="ConsumerProtocolSubscription", field="version", offset=0)
    subscription, _ = codec(ConsumerProtocolSubscription, 0).parse(data, 2)
    return subscription
