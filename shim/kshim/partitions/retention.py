"""Which segments are deleted because they are too old or too many, and when. No clock: `now` is passed in.

Every `log.retention.check.interval.ms`, as in Kafka (LogManager.cleanupLogs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kshim.partitions.cleaner_config import CleanerConfig
from kshim.scheduling.pace import Pace
from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.step import Now
    from kshim.partitions.partition import Partition, Topic
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks


class Retention:
    """The retention of one cluster. Does nothing before `begin`, nor while no topic deletes old records.

    `topics` iterates over all there are, `on_fired` is called with each check, `report(error, partition)` with what
    could not be deleted.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Iterable[Topic],
        background_tasks: BackgroundTasks,
        *,
        pace: Pace | None = None,
        on_fired: Callable[[tuple[str, ...]], None] = lambda key: None,
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._config = config
        self._topics = topics
        self._background_tasks = background_tasks
        self._pace = pace or Pace()
        self._on_fired = on_fired
        self._report = report
        self._now: Callable[[], Now] | None = None
        self.next_ms: int | None = None
        """When `advance` is due (ms, `Now.mono_ms`)."""

    def begin(self, now: Callable[[], Now]) -> None:
        """Start to look after the logs. `now` is the group clock."""
        self._now = now
        for topic in self._topics:
            self.consider(CleanerConfig(self._config, topic))

    def consider(self, cleaner_config: CleanerConfig) -> None:
        """Register the configuration of a topic: if it has retention, its logs are checked regularly."""
        if cleaner_config.deletes and self.next_ms is None and self._now is not None:
            self.next_ms = self._now().mono_ms + self._config.log_retention_check_interval_ms

    def advance(self, now: Now) -> None:
        """Have a look at what is too old or too much, when it is time."""
        if self.next_ms is not None and self.next_ms <= now.mono_ms:
            self.next_ms = self._pace.next_check(now.mono_ms, self._config.log_retention_check_interval_ms)
            self._on_fired(("retention",))
            self._background_tasks.add(self._delete_expired())

    def _delete_expired(self) -> BackgroundTask:
        """Delete the segments that are too old or too many, topic by topic."""
        for topic in self._topics:
            cleaner_config = CleanerConfig(self._config, topic)
            if not cleaner_config.deletes:
                continue
            for partition in list(topic.partitions):
                yield None
                try:
                    self._delete_expired_in(partition, cleaner_config)
                except LogError as error:
                    self._report(error, partition)

    def _delete_expired_in(self, partition: Partition, cleaner_config: CleanerConfig) -> None:
        from kshim.storage.retention import expired

        assert self._now is not None
        found = expired(
            partition.log.segments(),
            now_ms=self._now().wall_ms,
            retention_ms=cleaner_config.retention_ms,
            retention_bytes=cleaner_config.retention_bytes,
            durable_offset=partition.high_watermark,
        )
        if found is not None:
            partition.delete_before(found.start_offset)
