"""What the usual clients send: versions of the requests, reasons, and what they do about a poll that takes too long.

Versions as measured against Kafka 4.4 (`docs/conformance.md`); reasons (KIP-800) are the Java client's own words.
"""

from __future__ import annotations

from typing import NamedTuple


class Reason:
    """The Java client's reasons."""

    ID_ISSUED = "need to re-join with the given member-id: {member_id}"
    REBALANCING = "group is already rebalancing"
    UNKNOWN_MEMBER = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    UNKNOWN_MEMBER_IN_SYNC = "rebalance failed due to UnknownMemberIdException"
    ILLEGAL_GENERATION = "encountered ILLEGAL_GENERATION from HEARTBEAT response"
    REBALANCE_IN_SYNC = "rebalance failed due to RebalanceInProgressException"
    LEFT_BEFORE = "consumer pro-actively leaving the group"
    METADATA_CHANGED = "cached metadata has changed"
    SUBSCRIPTION_CHANGED = "subscription has changed"
    REVOKED = "need to revoke partitions and re-join"
    ENFORCED = "rebalance enforced by user"
    CLOSED = "the consumer is being closed"
    POLL_TIMEOUT = "consumer poll timeout has expired."


class Flavour(NamedTuple):
    """One client library. `watches_polls`: it leaves by itself when the application polls too seldom."""

    name: str
    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    gives_reasons: bool
    watches_polls: bool


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("java", 9, 5, 4, 5, 9, gives_reasons=True, watches_polls=True),
        Flavour("kafka-python", 7, 5, 4, 5, 8, gives_reasons=False, watches_polls=True),
        Flavour("librdkafka", 5, 3, 3, 1, 9, gives_reasons=False, watches_polls=True),
        Flavour("sarama", 5, 3, 3, 1, 7, gives_reasons=False, watches_polls=False),
    )
}
