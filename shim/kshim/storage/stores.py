"""Where a broker keeps its topics and their logs: in memory, or in a data directory.

Both have the methods of `kshim.partitions.topics.Storage`. Nothing here imports what only the other one needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from kshim.storage.topic_spec import TopicSpec

if TYPE_CHECKING:
    from kshim.storage.directory import DataDirectory
    from kshim.storage.file_log import FileLog
    from kshim.storage.memory_log import MemoryLog
    from kshim.storage.recovery import Recover
    from kshim.storage.repairs import Repair


class MemoryStorage:
    """Remembers nothing beyond the process."""

    def __init__(self) -> None:
        self._documents: dict[str, str] = {}

    def open_log(self, topic: str, partition: int) -> MemoryLog:
        """A new log."""
        from kshim.storage.memory_log import MemoryLog  # brings the record batches with it, which a start does not need

        return MemoryLog()

    def check(self) -> None:
        """Nothing can be wrong."""

    def load_topics(self) -> Iterable[TopicSpec]:
        """No topics: every start is the first."""
        return ()

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Nothing outlives the process."""

    def delete_topics(self, topics: Collection[str]) -> None:
        """The logs went with their topics."""

    def clean_offset(self, topic: str, partition: int) -> int:
        """Nothing is known of an earlier run."""
        return 0

    def note_clean_offset(self, topic: str, partition: int, offset: int) -> None:
        """There is no later run."""

    def clean_offsets_to_save(self) -> None:
        """Nothing."""

    def read_document(self, name: str) -> str | None:
        """What was written in this process."""
        return self._documents.get(name)

    def write_document(self, name: str, text: str) -> None:
        """Nothing outlives the process."""
        self._documents[name] = text

    def volume(self) -> tuple[str, int, int]:
        """No volume."""
        return "memory", -1, -1

    def close(self) -> None:
        """Nothing is held."""


class DirectoryStorage:
    """Keeps everything in `directory`, which belongs to this process until `close`.

    A log begins a new file at its topic's `segment.bytes`, or at `segment_bytes` where the topic sets none;
    `on_repair` is called with what opening a log had to repair.
    """

    def __init__(
        self,
        directory: DataDirectory,
        *,
        segment_bytes: int = 1 << 30,
        recover: Recover = "refuse",
        on_repair: Callable[[Repair], None] | None = None,
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._recover = recover
        self._on_repair = on_repair
        self._checked: dict[tuple[str, int], FileLog] = {}

    def check(self) -> None:
        """Unless the process before ended properly: check the tails of all logs. To be done before anybody uses them.

        When corruption is to be skipped, all of every log is checked. Raises CorruptLog, LogError.
        """
        directory = self._directory
        if directory.was_closed and self._recover == "refuse" and not directory.adopted:
            return
        for topic, partition in directory.partitions():
            spec = directory.topics.get(topic)
            if spec is not None and partition < spec.partition_count:
                log = self._checked[topic, partition] = self._log(topic, partition)
                log.check_tails()
                log.close_files()
        directory.is_checked = True

    def open_log(self, topic: str, partition: int) -> FileLog:
        """The log of one partition; its files are opened on first use."""
        checked = self._checked.pop((topic, partition), None)
        return self._log(topic, partition) if checked is None else checked

    def _log(self, topic: str, partition: int) -> FileLog:
        stored = self._directory.topics.get(topic)
        own = None if stored is None else stored.configs.get("segment.bytes")
        segment_bytes = self._segment_bytes if own is None else int(own)
        return self._directory.log(
            topic, partition, segment_bytes=segment_bytes, recover=self._recover, on_repair=self._on_repair
        )

    def load_topics(self) -> Iterable[TopicSpec]:
        """The topics of an earlier run."""
        return list(self._directory.topics.values())

    def save_topics(self, topics: Iterable[TopicSpec]) -> None:
        """Remember the topics; whole or not at all. Raises LogError."""
        self._directory.write_topics(topic._replace(configs=dict(topic.configs)) for topic in topics)

    def delete_topics(self, topics: Collection[str]) -> Callable[[], None] | None:
        """Put the records of topics out of use. What is returned removes them: it blocks, and raises LogError."""
        for key in [key for key in self._checked if key[0] in topics]:
            self._checked.pop(key).forget()
        return self._directory.delete_partitions(topics)

    def clean_offset(self, topic: str, partition: int) -> int:
        """Up to where a log was compacted."""
        return self._directory.cleaner_checkpoint.get(topic, partition)

    def note_clean_offset(self, topic: str, partition: int, offset: int) -> None:
        """A log was compacted up to there: to be saved one day."""
        self._directory.cleaner_checkpoint.note(topic, partition, offset)

    def clean_offsets_to_save(self) -> Callable[[], None] | None:
        """Writes what was noted so far: it blocks, in any thread, and raises LogError. None when nothing was."""
        return self._directory.cleaner_checkpoint.to_save()

    def read_document(self, name: str) -> str | None:
        """A file beside the logs. Raises LogError."""
        return self._directory.read_document(name)

    def write_document(self, name: str, text: str) -> None:
        """Replace it; whole or not at all. Raises LogError."""
        self._directory.write_document(name, text)

    def volume(self) -> tuple[str, int, int]:
        """(directory of the logs, bytes of its volume, bytes of it that are free). Raises LogError."""
        return self._directory.volume()

    def close(self) -> None:
        """Let others use the directory. Raises LogError when a repaired log could not be closed."""
        try:
            for log in self._checked.values():
                log.close()
        finally:
            self._checked.clear()
            self._directory.close()
