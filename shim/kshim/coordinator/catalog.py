"""What the coordinator asks about topics."""

from __future__ import annotations

from typing import Protocol


class TopicCatalog(Protocol):
    """The topics that exist. The broker implements it; topic ids have 16 bytes.

    `version` is another one after each change: a topic or partitions made, a topic deleted.
    """

    @property
    def version(self) -> int:
        """Of all topics together."""

    def partition_count(self, name: str) -> int | None:
        """Number of partitions, or None when there is no such topic."""

    def topic_id(self, name: str) -> bytes | None:
        """Id of a topic, or None when there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Name of a topic, or None when there is no such topic."""
