"""Which log is compacted, and when (docs/design/storage.md). No clock: `now` is passed in.

Logs of internal topics are compacted by what they hold: as soon as what is replaced may outweigh what is live, and
earlier when they are idle. Those of other topics follow their configuration as in Kafka, checked every
`log.cleaner.backoff.ms`. Kafka: LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kshim.partitions.cleaner_config import CleanerConfig
from kshim.scheduling.background_tasks import run_task
from kshim.storage.log import LogError, UncleanableBatch

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.step import Now
    from kshim.partitions.partition import Partition, Topic
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log
    from kshim.storage.storage import Storage


DIRTY_BYTES: Final = 1 << 20
"""So much may be dirty before a log of an internal topic is compacted; more, if more than that is clean."""
IDLE_DIRTY_BYTES: Final = 64 * 1024
"""The same once nothing has been appended to it for IDLE_MS, and at a graceful end."""
IDLE_MS: Final = 1_000
SAVE_MS: Final = 10_000
"""How long it may take until it is saved up to where logs are compacted."""
RETRY_MS: Final = 60_000
"""How long a log of an internal topic is left alone when the disk has refused something."""
SHUTDOWN_BYTES: Final = 64 << 20
"""How much a graceful end compacts, about a second."""

_NEVER: Final = 1 << 62


class _DirtyLog:
    """What is known of the log of one partition. Dirty is what was appended since it was last compacted."""

    def __init__(self, clean_offset: int) -> None:
        self.clean_offset = clean_offset
        self.clean_bytes = 0
        self.dirty_bytes = 0
        self.limit_bytes = _NEVER
        """Dirty bytes from which on the log must be checked."""
        self.horizon_ms: int | None = None
        """When the first tombstone may go, in Unix time; None if there is none, or nothing is known of it."""
        self.idle_bytes = -1
        """Dirty bytes when it was last looked whether the log is idle."""
        self.sealed_offset: int | None = None
        """To be compacted up to here, as soon as that is durable."""
        self.is_busy = False

    def measure(self, log: Log) -> None:
        """Read the sizes from the log again. Raises LogError."""
        segments = log.segments()
        self.clean_offset = min(self.clean_offset, segments[-1].base_offset if segments else 0)
        self.clean_bytes = sum(segment.size_bytes for segment in segments if segment.end_offset <= self.clean_offset)
        self.dirty_bytes = log.size_bytes - self.clean_bytes

    def limit(self, least_bytes: int) -> int:
        """How much may be dirty, at least this much."""
        return max(least_bytes, self.clean_bytes)


class LogCleaner:
    """The cleaner of one cluster; all its work is done in background tasks. Does nothing before `begin`.

    `topics` iterates over all there are. `is_loading(partition)` says whether a coordinator reads the log slice by slice,
    `on_sealed(partition)` asks for a sync of what was sealed, `on_compacted(partition, clean_offset)` is called after a
    compaction.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Iterable[Topic],
        storage: Storage,
        timers: Timers,
        background_tasks: BackgroundTasks,
        *,
        is_loading: Callable[[Partition], bool],
        on_sealed: Callable[[Partition], None],
        on_compacted: Callable[[Partition, int], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._config = config
        self._topics = topics
        self._storage = storage
        self._timers = timers
        self._background_tasks = background_tasks
        self._is_loading = is_loading
        self._on_sealed = on_sealed
        self._on_compacted = on_compacted
        self._report = report
        self._now: Callable[[], Now] | None = None
        self._dirty_logs: dict[Partition, _DirtyLog] = {}
        self._watched: dict[Partition, None] = {}  # of internal topics: have grown since they were found idle
        self._looks_for_idle = False
        self._is_armed = False
        self._saves_offsets = False

    def begin(self, now: Callable[[], Now]) -> None:
        """Start to look after the logs, once. `now` is the group clock."""
        self._now = now
        for topic in self._topics:
            cleaner_config = CleanerConfig(self._config, topic)
            self._consider(topic, cleaner_config)
            if cleaner_config.compacts and topic.is_internal:
                for partition in topic.partitions:
                    self._watch(partition)

    def _consider(self, topic: Topic, cleaner_config: CleanerConfig) -> None:
        """Register the configuration of a topic: if it is compacted, its logs are checked regularly."""
        if self._now is not None and cleaner_config.compacts and not topic.is_internal and not self._is_armed:
            self._is_armed = True
            self._timers.check_after(self._config.log_cleaner_backoff_ms, self._look_over_later, name="log_cleaner")

    # What happens to logs

    def opened(self, partition: Partition, cleaner_config: CleanerConfig) -> None:
        """The log of a partition is used for the first time, or again after it was closed."""
        log = partition.opened_log
        assert log is not None
        log.segment_bytes = cleaner_config.segment_bytes
        log.segment_ms = cleaner_config.segment_ms
        self._consider(partition.topic, cleaner_config)

    def configured(self, topic: Topic, cleaner_config: CleanerConfig) -> None:
        """The configuration that holds for a topic has changed."""
        self._consider(topic, cleaner_config)
        for partition in topic.partitions:
            log = partition.opened_log
            if log is None:
                continue
            log.segment_bytes = cleaner_config.segment_bytes
            log.segment_ms = cleaner_config.segment_ms
            dirty = self._dirty_logs.get(partition)
            if dirty is not None and topic.is_internal and cleaner_config.compacts and dirty.limit_bytes == _NEVER:
                dirty.limit_bytes = -1  # see `_dirty_log`

    def closing(self, partition: Partition) -> None:
        """The log of a partition is being closed or repaired: what is known of it no longer holds."""
        self._dirty_logs.pop(partition, None)
        self._watched.pop(partition, None)

    def appended(self, partition: Partition, size_bytes: int) -> None:
        """A batch was appended. Called for each one, so brief."""
        if self._now is None:
            return
        dirty = self._dirty_logs.get(partition)
        if dirty is None:
            dirty = self._first_dirty_log(partition)
        else:
            dirty.dirty_bytes += size_bytes
        if dirty.dirty_bytes > dirty.limit_bytes:
            self._grown(partition, dirty)

    def _first_dirty_log(self, partition: Partition) -> _DirtyLog:
        try:
            return self._dirty_log(partition)
        except LogError as error:  # the batch is in the log all the same
            dirty = self._dirty_logs[partition] = _DirtyLog(0)
            self._fail(partition, dirty, error)
            return dirty

    def became_durable(self, partition: Partition, log: Log) -> None:
        """More of a log survives power loss."""
        dirty = self._dirty_logs.get(partition)
        if dirty is not None and dirty.sealed_offset is not None and dirty.sealed_offset <= log.durable_offset:
            self._queue(partition, dirty)

    def start_moved(self, partition: Partition) -> None:
        """The beginning of a log was removed: its sizes must be read again."""
        self._dirty_logs.pop(partition, None)
        self._watched.pop(partition, None)

    def _dirty_log(self, partition: Partition) -> _DirtyLog:
        dirty = self._dirty_logs.get(partition)
        if dirty is None:
            clean_offset = self._storage.clean_offset(partition.topic.name, partition.index)
            dirty = _DirtyLog(clean_offset)
            dirty.measure(partition.log)
            self._dirty_logs[partition] = dirty
            cleaner_config = CleanerConfig(self._config, partition.topic)
            if cleaner_config.compacts and partition.topic.is_internal:
                dirty.limit_bytes = -1  # the next append has it watched
        return dirty

    # Internal topics: compacted by what they hold

    def _grown(self, partition: Partition, dirty: _DirtyLog) -> None:
        if dirty.limit_bytes < 0:
            dirty.limit_bytes = dirty.limit(DIRTY_BYTES)
            dirty.idle_bytes = -1
            self._watch(partition)
        if dirty.dirty_bytes > dirty.limit_bytes:
            dirty.limit_bytes = dirty.dirty_bytes + dirty.limit(DIRTY_BYTES)  # if it stays so, look again then
            self._seal(partition, dirty)

    def _watch(self, partition: Partition) -> None:
        """See whether its log becomes idle, or was left dirty by an earlier run."""
        self._watched[partition] = None
        if not self._looks_for_idle:
            self._looks_for_idle = True
            self._timers.after(IDLE_MS, self._look_for_idle, name="log_cleaner")

    def _look_for_idle(self) -> None:
        for partition in list(self._watched):
            if not self._is_readable(partition):
                continue
            try:
                dirty = self._dirty_log(partition)
            except LogError as error:
                del self._watched[partition]
                self._report(error, partition)
                continue
            if dirty.dirty_bytes != dirty.idle_bytes:
                dirty.idle_bytes = dirty.dirty_bytes
                continue
            del self._watched[partition]
            dirty.limit_bytes = -1
            if dirty.dirty_bytes > dirty.limit(IDLE_DIRTY_BYTES):
                self._seal(partition, dirty)
        self._looks_for_idle = bool(self._watched)
        if self._looks_for_idle:
            self._timers.after(IDLE_MS, self._look_for_idle, name="log_cleaner")

    # Other topics: compacted as they are configured

    def _look_over_later(self) -> None:
        self._background_tasks.add(self._look_over())

    def _look_over(self) -> BackgroundTask:
        """Find the logs that are due to be compacted."""
        assert self._now is not None
        self._is_armed = False
        for topic in self._topics:
            cleaner_config = CleanerConfig(self._config, topic)
            if topic.is_internal or not cleaner_config.compacts:
                continue
            self._consider(topic, cleaner_config)
            for partition in list(topic.partitions):
                yield None
                try:
                    dirty = self._dirty_log(partition)
                    now_ms = self._now().wall_ms
                    has_horizon = dirty.horizon_ms is not None and dirty.horizon_ms <= now_ms
                    if has_horizon or cleaner_config.is_due(partition.log.segments(), dirty.clean_offset, now_ms):
                        self._seal(partition, dirty)
                except LogError as error:
                    self._report(error, partition)

    # Compaction

    def _seal(self, partition: Partition, dirty: _DirtyLog) -> None:
        """Have the log compacted once what is sealed of it is durable, for a record may go only after the one that
        replaces it is safe. Logs of internal topics are sealed now."""
        log = partition.opened_log
        if log is None or dirty.is_busy:
            return
        try:
            if partition.topic.is_internal:
                log.roll()
            segments = log.segments()
            dirty.sealed_offset = segments[-1].base_offset if segments else log.end_offset
            is_durable = dirty.sealed_offset <= log.durable_offset
        except LogError as error:
            self._fail(partition, dirty, error)
            return
        if is_durable:
            self._queue(partition, dirty)
        else:
            self._on_sealed(partition)

    def _queue(self, partition: Partition, dirty: _DirtyLog) -> None:
        dirty.sealed_offset = None
        if not dirty.is_busy:
            dirty.is_busy = True
            self._background_tasks.add(self._compact(partition, dirty))

    def _fail(self, partition: Partition, dirty: _DirtyLog, error: LogError) -> None:
        """Leave the log alone for a while; for good, as Kafka does, when it would fail again and again."""
        dirty.limit_bytes = _NEVER
        self._watched.pop(partition, None)
        self._report(error, partition)
        if not isinstance(error, UncleanableBatch):
            self._timers.after(RETRY_MS, lambda: self._try_again(partition, dirty), name="log_cleaner")

    def _try_again(self, partition: Partition, dirty: _DirtyLog) -> None:
        if self._dirty_logs.get(partition) is dirty and partition.topic.is_internal:
            dirty.limit_bytes = dirty.limit(DIRTY_BYTES)
            self._watch(partition)

    def _compact(self, partition: Partition, dirty: _DirtyLog) -> BackgroundTask:
        try:
            log = partition.opened_log
            if log is not None and self._dirty_logs.get(partition) is dirty and self._may_replace(partition, log):
                yield from self._clean(partition, dirty, log)
        except LogError as error:
            self._fail(partition, dirty, error)
        finally:
            dirty.is_busy = False
        if dirty.dirty_bytes > dirty.limit_bytes >= 0:  # more than that was appended meanwhile
            self._grown(partition, dirty)

    def _clean(self, partition: Partition, dirty: _DirtyLog, log: Log) -> BackgroundTask:
        from kshim.storage.cleaner import clean

        assert self._now is not None
        config = self._config
        cleaner_config = CleanerConfig(config, partition.topic)
        if not cleaner_config.compacts:
            return
        now_ms = self._now().wall_ms
        dirty.measure(log)
        result = yield from clean(
            log,
            first_dirty_offset=dirty.clean_offset,
            before_offset=min(
                cleaner_config.cleanable_end(log.segments(), dirty.clean_offset, now_ms), log.durable_offset
            ),
            now_ms=now_ms,
            delete_retention_ms=cleaner_config.delete_retention_ms,
            producers_since_ms=now_ms - config.producer_id_expiration_ms,
            segment_bytes=cleaner_config.segment_bytes,
            key_map_bytes=config.log_cleaner_dedupe_buffer_size,
            drops_tombstones=dirty.horizon_ms is not None and dirty.horizon_ms <= now_ms,
            may_replace=lambda: self._may_replace(partition, log),
        )
        if result is None:
            return
        self._on_compacted(partition, result.clean_offset)
        dirty.clean_offset = result.clean_offset
        dirty.horizon_ms = result.next_horizon_ms
        dirty.measure(log)
        if partition in self._watched and result.first_unstable_offset is None:
            dirty.limit_bytes = dirty.limit(DIRTY_BYTES)
        self._storage.note_clean_offset(partition.topic.name, partition.index, result.clean_offset)
        if not self._saves_offsets:
            self._saves_offsets = True
            self._timers.after(SAVE_MS, self._save_offsets_later, name="log_cleaner")

    def _save_offsets_later(self) -> None:
        self._background_tasks.add(self._save_offsets())

    def _save_offsets(self) -> BackgroundTask:
        self._saves_offsets = False
        save = self._storage.clean_offsets_to_save()
        if save is not None:
            try:
                yield save
            except LogError as error:
                self._report(error, None)

    def _may_replace(self, partition: Partition, log: Log) -> bool:
        """Whether no other task has taken the log or is reading it in slices."""
        return partition.opened_log is log and self._is_readable(partition)

    def _is_readable(self, partition: Partition) -> bool:
        """Whether its log is not being repaired, or read by the coordinator."""
        return not partition.is_failed and not self._is_loading(partition)

    def compact_before_end(self) -> None:
        """At a graceful end: compact what is quickly compacted of internal topics, so that the next start is quick."""
        if self._now is None:
            return
        left_bytes = SHUTDOWN_BYTES
        for partition, dirty in list(self._dirty_logs.items()):
            log = partition.opened_log
            if log is None or not partition.topic.is_internal or dirty.limit_bytes == _NEVER:
                continue
            size_bytes = dirty.dirty_bytes + dirty.clean_bytes
            if dirty.dirty_bytes > dirty.limit(IDLE_DIRTY_BYTES) and size_bytes <= left_bytes:
                left_bytes -= size_bytes
                try:
                    log.roll()
                    log.sync()
                except LogError as error:
                    self._report(error, partition)
                else:
                    run_task(self._compact(partition, dirty))
        run_task(self._save_offsets())
