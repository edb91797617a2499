"""Where a cluster keeps its topics, its logs and its small documents: memory, or a data directory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kshim.storage.log import Log
    from kshim.storage.topic_spec import TopicSpec


class Storage(Protocol):
    """Where logs and the list of topics live: memory, or a data directory. Calls block; LogError when they fail."""

    def open_log(self, topic: str, partition: int) -> Log:
        """The log of one partition, made when it does not exist."""

    def load_topics(self) -> Iterable[TopicSpec]:
        """The topics of an earlier run."""

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Remember the topics; whole or not at all."""

    def delete_topics(self, topics: Collection[str]) -> Callable[[], None] | None:
        """Forget the records of topics that `save_topics` has left out; their logs are no longer used. Never raises.

        What is returned frees their space: to be called in any thread; it blocks, and raises LogError, also for what
        has failed before. None when there is nothing to free.
        """

    def clean_offset(self, topic: str, partition: int) -> int:
        """Up to where a log was compacted, by what an earlier run has saved; 0 when nothing is known."""

    def note_clean_offset(self, topic: str, partition: int, offset: int) -> None:
        """A log was compacted up to there: to be saved one day."""

    def clean_offsets_to_save(self) -> Callable[[], None] | None:
        """Saves what was noted so far: to be called in any thread; it blocks. None when there is nothing to save."""

    def read_document(self, name: str) -> str | None:
        """Something small of the broker's own, e.g. its access rules; None when there is none."""

    def write_document(self, name: str, text: str) -> None:
        """Replace it; whole or not at all."""

    def volume(self) -> tuple[str, int, int]:
        """(directory of the logs, bytes of its volume, bytes of it that are free); -1 where there is no volume."""

    def close(self) -> None:
        """Give up the directory."""
