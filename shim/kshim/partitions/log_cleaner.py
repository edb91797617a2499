"""Which log is compacted or loses old records, and when (docs/design/storage.md). No clock: `now` is handed in.

Logs of internal topics are compacted by what they hold: as soon as what is replaced may outweigh what is live, and
earlier when they are idle. Those of other topics follow their configuration as in Kafka, looked at every
`log.cleaner.backoff.ms`. Kafka: LogCleanerManager, LogManager.cleanupLogs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshim.partitions.cleaner_config import CleanerConfig
from kshim.scheduling.background_tasks import run_task
from kshim.storage.log import LogError, UncleanableBatch

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now
    from kshim.partitions.topics import Partition, Topic
    from kshim.scheduling.background_tasks import BackgroundTask
    from kshim.storage.log import Log


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


class _Upkeep:
    """What is known of the log of one partition. Dirty is what was appended since it was last compacted."""

    __slots__ = (
        "clean_bytes",
        "clean_offset",
        "dirty_bytes",
        "horizon_ms",
        "idle_bytes",
        "is_busy",
        "limit_bytes",
        "sealed_offset",
    )

    def __init__(self, clean_offset: int) -> None:
        self.clean_offset = clean_offset
        self.clean_bytes = 0
        self.dirty_bytes = 0
        self.limit_bytes = _NEVER
        """Dirty bytes at which somebody should have a look."""
        self.horizon_ms: int | None = None
        """When the first tombstone may go, in Unix time; None if there is none, or nothing is known of it."""
        self.idle_bytes = -1
        """Dirty bytes when it was last looked whether the log is idle."""
        self.sealed_offset: int | None = None
        """To be compacted up to here, as soon as that is durable."""
        self.is_busy = False

    def measure(self, log: Log) -> None:
        """Take the sizes anew from the log. Raises LogError."""
        segments = log.segments()
        self.clean_offset = min(self.clean_offset, segments[-1].base_offset if segments else 0)
        self.clean_bytes = sum(segment.size_bytes for segment in segments if segment.end_offset <= self.clean_offset)
        self.dirty_bytes = log.size_bytes - self.clean_bytes

    def limit(self, least_bytes: int) -> int:
        """How much may be dirty, at least this much."""
        return max(least_bytes, self.clean_bytes)


class LogCleaner:
    """The cleaner and the retention of one cluster; all its work are background_tasks. Does nothing before `begin`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._now: Callable[[], Now] | None = None
        self._upkeeps: dict[Partition, _Upkeep] = {}
        self._restless: dict[Partition, None] = {}  # of internal topics: have grown since they were found idle
        self._looks_for_idle = False
        self._is_cleaner_armed = False
        self._saves_offsets = False
        self.next_ms: int | None = None
        """When `advance` is due (ms, `Now.mono_ms`)."""

    def begin(self, now: Callable[[], Now]) -> None:
        """Start to look after the logs, once. `now` is the group clock."""
        if self._now is not None:
            return
        self._now = now
        for topic in self._cluster.topics:
            rules = CleanerConfig(self._cluster.config, topic)
            self._consider(rules, is_internal=topic.is_internal)
            if rules.compacts and topic.is_internal:
                for partition in topic.partitions:
                    self._watch(partition)

    def _consider(self, rules: CleanerConfig, *, is_internal: bool) -> None:
        """There is a topic with these rules: see to it that somebody looks after it from time to time."""
        if rules.deletes and self.next_ms is None and self._now is not None:
            self.next_ms = self._now().mono_ms + self._cluster.config.log_retention_check_interval_ms
        if rules.compacts and not is_internal and not self._is_cleaner_armed:
            self._is_cleaner_armed = True
            self._cluster.timers.after(self._cluster.config.log_cleaner_backoff_ms, self._look_over_later)

    # What happens to logs

    def opened(self, partition: Partition) -> None:
        """The log of a partition is used for the first time, or again after it was closed."""
        log = partition.opened_log
        assert log is not None
        rules = CleanerConfig(self._cluster.config, partition.topic)
        log.segment_bytes = rules.segment_bytes
        log.segment_ms = rules.segment_ms
        if self._now is not None:
            self._consider(rules, is_internal=partition.topic.is_internal)

    def configured(self, topic: Topic) -> None:
        """The configuration that holds for a topic has changed."""
        rules = CleanerConfig(self._cluster.config, topic)
        if self._now is not None:
            self._consider(rules, is_internal=topic.is_internal)
        for partition in topic.partitions:
            log = partition.opened_log
            if log is None:
                continue
            log.segment_bytes = rules.segment_bytes
            log.segment_ms = rules.segment_ms
            upkeep = self._upkeeps.get(partition)
            if upkeep is not None and topic.is_internal and rules.compacts and upkeep.limit_bytes == _NEVER:
                upkeep.limit_bytes = -1  # see `_upkeep`

    def closing(self, partition: Partition) -> None:
        """The log of a partition is being closed or repaired: what is known of it no longer holds."""
        self._upkeeps.pop(partition, None)
        self._restless.pop(partition, None)

    def appended(self, partition: Partition, size_bytes: int) -> None:
        """A batch was appended. Called for each one, so brief."""
        if self._now is None:
            return
        upkeep = self._upkeeps.get(partition)
        if upkeep is None:
            upkeep = self._first_upkeep(partition)
        else:
            upkeep.dirty_bytes += size_bytes
        if upkeep.dirty_bytes > upkeep.limit_bytes:
            self._grown(partition, upkeep)

    def _first_upkeep(self, partition: Partition) -> _Upkeep:
        try:
            return self._upkeep(partition)
        except LogError as error:  # the batch is in the log all the same
            upkeep = self._upkeeps[partition] = _Upkeep(0)
            self._fail(partition, upkeep, error)
            return upkeep

    def became_durable(self, partition: Partition, log: Log) -> None:
        """More of a log survives power loss."""
        upkeep = self._upkeeps.get(partition)
        if upkeep is not None and upkeep.sealed_offset is not None and upkeep.sealed_offset <= log.durable_offset:
            self._queue(partition, upkeep)

    def start_moved(self, partition: Partition) -> None:
        """The beginning of a log is gone: its sizes are to be taken anew."""
        self._upkeeps.pop(partition, None)
        self._restless.pop(partition, None)

    def _upkeep(self, partition: Partition) -> _Upkeep:
        upkeep = self._upkeeps.get(partition)
        if upkeep is None:
            clean_offset = self._cluster.topics.storage.clean_offset(partition.topic.name, partition.index)
            upkeep = _Upkeep(clean_offset)
            upkeep.measure(partition.log)
            self._upkeeps[partition] = upkeep
            rules = CleanerConfig(self._cluster.config, partition.topic)
            if rules.compacts and partition.topic.is_internal:
                upkeep.limit_bytes = -1  # the next append makes it restless
        return upkeep

    # Internal topics: compacted by what they hold

    def _grown(self, partition: Partition, upkeep: _Upkeep) -> None:
        if upkeep.limit_bytes < 0:
            upkeep.limit_bytes = upkeep.limit(DIRTY_BYTES)
            upkeep.idle_bytes = -1
            self._watch(partition)
        if upkeep.dirty_bytes > upkeep.limit_bytes:
            upkeep.limit_bytes = upkeep.dirty_bytes + upkeep.limit(DIRTY_BYTES)  # if it stays so, look again then
            self._seal(partition, upkeep)

    def _watch(self, partition: Partition) -> None:
        """See whether its log becomes idle, or was left dirty by an earlier run."""
        self._restless[partition] = None
        if not self._looks_for_idle:
            self._looks_for_idle = True
            self._cluster.timers.after(IDLE_MS, self._look_for_idle)

    def _look_for_idle(self) -> None:
        for partition in list(self._restless):
            if not self._is_readable(partition):
                continue
            try:
                upkeep = self._upkeep(partition)
            except LogError as error:
                del self._restless[partition]
                self._cluster.report(error, partition)
                continue
            if upkeep.dirty_bytes != upkeep.idle_bytes:
                upkeep.idle_bytes = upkeep.dirty_bytes
                continue
            del self._restless[partition]
            upkeep.limit_bytes = -1
            if upkeep.dirty_bytes > upkeep.limit(IDLE_DIRTY_BYTES):
                self._seal(partition, upkeep)
        self._looks_for_idle = bool(self._restless)
        if self._looks_for_idle:
            self._cluster.timers.after(IDLE_MS, self._look_for_idle)

    # Other topics: compacted as they are configured

    def _look_over_later(self) -> None:
        self._cluster.background_tasks.add(self._look_over())

    def _look_over(self) -> BackgroundTask:
        """Find the logs that are due to be compacted."""
        assert self._now is not None
        self._is_cleaner_armed = False
        for topic in self._cluster.topics:
            rules = CleanerConfig(self._cluster.config, topic)
            if topic.is_internal or not rules.compacts:
                continue
            self._consider(rules, is_internal=False)
            for partition in list(topic.partitions):
                yield None
                try:
                    upkeep = self._upkeep(partition)
                    now_ms = self._now().wall_ms
                    has_horizon = upkeep.horizon_ms is not None and upkeep.horizon_ms <= now_ms
                    if has_horizon or rules.is_due(partition.log.segments(), upkeep.clean_offset, now_ms):
                        self._seal(partition, upkeep)
                except LogError as error:
                    self._cluster.report(error, partition)

    # Compaction

    def _seal(self, partition: Partition, upkeep: _Upkeep) -> None:
        """Have the log compacted once what is sealed of it is durable, for a record may go only after the one that
        replaces it is safe. Logs of internal topics are sealed now."""
        log = partition.opened_log
        if log is None or upkeep.is_busy:
            return
        try:
            if partition.topic.is_internal:
                log.roll()
            segments = log.segments()
            upkeep.sealed_offset = segments[-1].base_offset if segments else log.end_offset
            is_durable = upkeep.sealed_offset <= log.durable_offset
        except LogError as error:
            self._fail(partition, upkeep, error)
            return
        if is_durable:
            self._queue(partition, upkeep)
        else:
            self._cluster.durability.rolled(partition)

    def _queue(self, partition: Partition, upkeep: _Upkeep) -> None:
        upkeep.sealed_offset = None
        if not upkeep.is_busy:
            upkeep.is_busy = True
            self._cluster.background_tasks.add(self._compact(partition, upkeep))

    def _fail(self, partition: Partition, upkeep: _Upkeep, error: LogError) -> None:
        """Leave the log alone for a while; for good, as Kafka does, when it would fail again and again."""
        upkeep.limit_bytes = _NEVER
        self._restless.pop(partition, None)
        self._cluster.report(error, partition)
        if not isinstance(error, UncleanableBatch):
            self._cluster.timers.after(RETRY_MS, lambda: self._try_again(partition, upkeep))

    def _try_again(self, partition: Partition, upkeep: _Upkeep) -> None:
        if self._upkeeps.get(partition) is upkeep and partition.topic.is_internal:
            upkeep.limit_bytes = upkeep.limit(DIRTY_BYTES)
            self._watch(partition)

    def _compact(self, partition: Partition, upkeep: _Upkeep) -> BackgroundTask:
        try:
            log = partition.opened_log
            if log is not None and self._upkeeps.get(partition) is upkeep and self._may_replace(partition, log):
                yield from self._clean(partition, upkeep, log)
        except LogError as error:
            self._fail(partition, upkeep, error)
        finally:
            upkeep.is_busy = False
        if upkeep.dirty_bytes > upkeep.limit_bytes >= 0:  # more than that was appended meanwhile
            self._grown(partition, upkeep)

    def _clean(self, partition: Partition, upkeep: _Upkeep, log: Log) -> BackgroundTask:
        from kshim.partitions.producer_state import EXPIRATION_MS
        from kshim.storage.cleaner import clean

        assert self._now is not None
        config = self._cluster.config
        rules = CleanerConfig(config, partition.topic)
        if not rules.compacts:
            return
        now_ms = self._now().wall_ms
        upkeep.measure(log)
        result = yield from clean(
            log,
            first_dirty_offset=upkeep.clean_offset,
            before_offset=min(rules.cleanable_end(log.segments(), upkeep.clean_offset, now_ms), log.durable_offset),
            now_ms=now_ms,
            delete_retention_ms=rules.delete_retention_ms,
            producers_since_ms=now_ms - EXPIRATION_MS,
            segment_bytes=rules.segment_bytes,
            key_map_bytes=config.log_cleaner_dedupe_buffer_size,
            drops_tombstones=upkeep.horizon_ms is not None and upkeep.horizon_ms <= now_ms,
            may_replace=lambda: self._may_replace(partition, log),
        )
        if result is None:
            return
        self._cluster.producer_snapshots.compacted(partition, result.clean_offset)
        upkeep.clean_offset = result.clean_offset
        upkeep.horizon_ms = result.next_horizon_ms
        upkeep.measure(log)
        if partition in self._restless and result.first_unstable_offset is None:
            upkeep.limit_bytes = upkeep.limit(DIRTY_BYTES)
        self._cluster.topics.storage.note_clean_offset(partition.topic.name, partition.index, result.clean_offset)
        if not self._saves_offsets:
            self._saves_offsets = True
            self._cluster.timers.after(SAVE_MS, self._save_offsets_later)

    def _save_offsets_later(self) -> None:
        self._cluster.background_tasks.add(self._save_offsets())

    def _save_offsets(self) -> BackgroundTask:
        self._saves_offsets = False
        save = self._cluster.topics.storage.clean_offsets_to_save()
        if save is not None:
            try:
                yield save
            except LogError as error:
                self._cluster.report(error, None)

    def _may_replace(self, partition: Partition, log: Log) -> bool:
        """Whether nobody else has taken the log, or is reading it slice by slice."""
        return partition.opened_log is log and self._is_readable(partition)

    def _is_readable(self, partition: Partition) -> bool:
        """Whether its log is not being repaired, or read by the coordinator."""
        if partition.is_failed:
            return False
        loads = self._cluster.loads_of(partition)
        return loads is None or not loads.is_pending(partition.index)

    def compact_before_end(self) -> None:
        """At a graceful end: compact what is quickly compacted of internal topics, so that the next start is quick."""
        if self._now is None:
            return
        left_bytes = SHUTDOWN_BYTES
        for partition, upkeep in list(self._upkeeps.items()):
            log = partition.opened_log
            if log is None or not partition.topic.is_internal or upkeep.limit_bytes == _NEVER:
                continue
            size_bytes = upkeep.dirty_bytes + upkeep.clean_bytes
            if upkeep.dirty_bytes > upkeep.limit(IDLE_DIRTY_BYTES) and size_bytes <= left_bytes:
                left_bytes -= size_bytes
                try:
                    log.roll()
                    log.sync()
                except LogError as error:
                    self._cluster.report(error, partition)
                else:
                    run_task(self._compact(partition, upkeep))
        run_task(self._save_offsets())

    # Retention

    def advance(self, now: Now) -> None:
        """Have a look at what is too old or too much, when it is time."""
        if self.next_ms is not None and self.next_ms <= now.mono_ms:
            self.next_ms = now.mono_ms + self._cluster.config.log_retention_check_interval_ms
            self._cluster.background_tasks.add(self._retain())

    def _retain(self) -> BackgroundTask:
        """Delete the segments that are too old or too many, topic by topic."""
        for topic in self._cluster.topics:
            rules = CleanerConfig(self._cluster.config, topic)
            if not rules.deletes:
                continue
            for partition in list(topic.partitions):
                yield None
                try:
                    self._retain_partition(partition, rules)
                except LogError as error:
                    self._cluster.report(error, partition)

    def _retain_partition(self, partition: Partition, rules: CleanerConfig) -> None:
        from kshim.storage.retention import expired

        assert self._now is not None
        log = partition.log
        found = expired(
            log.segments(),
            now_ms=self._now().wall_ms,
            retention_ms=rules.retention_ms,
            retention_bytes=rules.retention_bytes,
            durable_offset=partition.high_watermark,
        )
        if found is not None:
            self._cluster.delete_before(partition, found.start_offset)
