"""A broker's topics and logs in memory. It has the methods of `kshim.broker.topics.Storage`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kshim.storage.topic_spec import TopicSpec

if TYPE_CHECKING:
    from kshim.storage.memory import MemoryLog

__all__ = ["MemoryStorage"]


class MemoryStorage:
    """Remembers nothing beyond the process."""

    def open_log(self, topic: str, partition: int) -> MemoryLog:
        """A new log."""
        from kshim.storage.memory import MemoryLog  # brings the record batches with it, which a start does not need

        return MemoryLog()

    def load_topics(self) -> Iterable[TopicSpec]:
        """No topics: every start is the first."""
        return ()

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Nothing outlives the process."""

    def delete_topic(self, topic: str) -> None:
        """The logs went with their topic."""

    def close(self) -> None:
        """Nothing is held."""
