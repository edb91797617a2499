"""What the group suite needs of a client library. One adapter a client, in the folder of that client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class TopicPartition(NamedTuple):
    """A partition, hashable whatever the client calls it."""

    topic: str
    partition: int


class Record(NamedTuple):
    """A record as consumed. Keys are not looked at."""

    topic: str
    partition: int
    offset: int
    value: str


class Member(Protocol):
    """A consumer in a group. Default settings of its client, but for `auto.offset.reset=earliest`."""

    def poll(self, timeout_s: float) -> list[Record]:
        """What the client's own poll returns within that time. Joining and rejoining happen in here."""
        ...

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions it believes it owns, after the last poll."""
        ...

    def commit(self) -> None:
        """Commit the position of everything polled so far, and wait for the answer."""
        ...

    def close(self) -> None:
        """Leave the group and close."""
        ...


class DoomedMember(Member, Protocol):
    """A consumer in a process of its own, which can crash. It may deliver no records."""

    def crash(self) -> None:
        """Kill its process: no LeaveGroup is sent."""
        ...


class Client(Protocol):
    """A client library: how it makes topics, produces, and joins groups."""

    name: str

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Return when the broker has answered that the topic is there."""
        ...

    def wait_for_leaders(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Return when each partition's leader serves ListOffsets. Metadata may name it a moment too early."""
        ...

    def topics(self, bootstrap: str) -> set[str]:
        """The names of all topics, internal ones included."""
        ...

    def member_count(self, bootstrap: str, group_id: str) -> int:
        """How many members the broker counts in this group."""
        ...

    def produce(self, bootstrap: str, topic: str, values: Iterable[str]) -> None:
        """Send each value with itself as key, which spreads them over the partitions; return when all are written."""
        ...

    def join(
        self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int | None = None
    ) -> Member:
        """A consumer that subscribes to topics by name. None: the client's own session timeout."""
        ...

    def join_pattern(self, bootstrap: str, group_id: str, pattern: str) -> Member:
        """A consumer that subscribes to all topics that match a regular expression."""
        ...

    def join_doomed(self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int) -> DoomedMember:
        """As `join`, in a process of its own."""
        ...
