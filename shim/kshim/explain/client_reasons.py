"""What clients say when they join or leave (KIP-800), as their sources word it."""

from __future__ import annotations

from enum import Enum


class Says(Enum):
    """What the reason of a JoinGroup or LeaveGroup tells of the process."""

    NOTHING = "nothing"
    """The client library gives no reasons, or the source does not contain them."""
    BEGINS = "begins"
    """This process joins the group for the first time."""
    GOES_ON = "goes on"
    """This process was a member before."""
    POLL_TIMEOUT = "poll timeout"
    CLOSES = "closes"
    UNSUBSCRIBES = "unsubscribes"
    METADATA_CHANGED = "metadata changed"
    TOPICS_FOUND = "topics found"
    """There are topics that it wants and had not known."""
    SUBSCRIPTION_CHANGED = "subscription changed"
    ENFORCED = "enforced"
    OWN_WORDS = "own words"
    """What the application gave as its reason: no library words it so."""
    REMOVED_BY_ADMIN = "removed by an admin"
    """It says nothing itself: Kafka's admin client says it."""


# Java and kafka-python word them alike; franz-go has its own. Java sends "" when a process joins for the first time.
_WORDS: tuple[tuple[str, Says], ...] = (
    ("poll timeout has expired", Says.POLL_TIMEOUT),
    ("pro-actively leaving", Says.POLL_TIMEOUT),
    ("removed by an admin", Says.REMOVED_BY_ADMIN),
    ("being closed", Says.CLOSES),
    ("leaving group per normal operation", Says.CLOSES),
    ("unsubscribed from all topics", Says.UNSUBSCRIBES),
    ("cached metadata has changed", Says.METADATA_CHANGED),
    ("subscription has changed", Says.SUBSCRIPTION_CHANGED),
    ("there are more topics to consume", Says.TOPICS_FOUND),
    ("some topics have new partitions", Says.METADATA_CHANGED),
    ("enforced by user", Says.ENFORCED),
    ("beginning to manage the group lifecycle", Says.BEGINS),
    ("need to re-join with the given member-id", Says.NOTHING),
    ("unknown_member_id", Says.GOES_ON),
    ("illegal_generation", Says.GOES_ON),
    ("after revoking what we lost", Says.GOES_ON),
    ("previously errored and backed off", Says.GOES_ON),
    ("rebalance failed due to", Says.GOES_ON),
    ("need to revoke partitions", Says.GOES_ON),
    ("instance group leader restarted", Says.GOES_ON),
    ("request is sent to the coordinator in the last", Says.GOES_ON),
)


_OF_LIBRARIES = ("join", "rebalanc", "metadata", "member", "leader", "assign", "partition", "generation", "subscri")
"""What reasons of libraries are about, which may have others than those above."""


def says(client_reason: str | None) -> Says:
    """What a reason means."""
    if client_reason is None:
        return Says.NOTHING
    text = client_reason.lower()
    if not text.strip():
        return Says.BEGINS
    is_of_library = any(word in text for word in _OF_LIBRARIES)
    return next(
        (meaning for words, meaning in _WORDS if words in text), Says.NOTHING if is_of_library else Says.OWN_WORDS
    )
