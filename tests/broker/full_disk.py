"""A storage on which nothing more can be remembered."""

from __future__ import annotations

from collections.abc import Iterable

from kshim.storage.log import LogError
from kshim.storage.stores import MemoryStorage
from kshim.storage.topic_spec import TopicSpec


class FullDisk(MemoryStorage):
    """Takes topics until `is_full` is set, and no more then."""

    def __init__(self, *, is_full: bool = True) -> None:
        super().__init__()
        self.is_full = is_full

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Raises LogError once it is full."""
        if self.is_full:
            raise LogError("no space left")
        super().save_topics(topics)
