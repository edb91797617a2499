"""All partitions of a cluster, and what looks after their logs: the one place where these parts are put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.partitions.cleaner_config import CleanerConfig
from kshim.partitions.durability import Durability, FsyncPolicy
from kshim.partitions.fetch_purgatory import FetchPurgatory
from kshim.partitions.internal_topics import unlisted_topics
from kshim.partitions.log_cleaner import LogCleaner
from kshim.partitions.log_recovery import LogRecovery
from kshim.partitions.producer_expiration import ProducerExpiration
from kshim.partitions.producer_snapshots import ProducerSnapshots
from kshim.partitions.retention import Retention
from kshim.partitions.topics import Topics

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.step import Now
    from kshim.partitions.leadership import Leadership
    from kshim.partitions.partition import Partition, Topic
    from kshim.scheduling.background_tasks import BackgroundTasks
    from kshim.scheduling.pace import Pace
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log, LogError
    from kshim.storage.storage import Storage


class Partitions:
    """The `PartitionServices` of a cluster. `topics` are there from the start; nothing is cleaned or deleted before
    `begin`.

    `is_loading(partition)` says whether a coordinator reads the log slice by slice; `on_taken(partition)` is called when a
    log is taken out of use because a sync has failed, `on_repaired(partition)` when it is back, `on_fired` with
    each timer that fires, `report` with exceptions that should not be.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        new_topic_id: Callable[[], bytes],
        leadership: Leadership,
        *,
        fsync: FsyncPolicy,
        fsync_interval_ms: int,
        timers: Timers,
        background_tasks: BackgroundTasks,
        is_loading: Callable[[Partition], bool],
        on_taken: Callable[[Partition], None],
        on_repaired: Callable[[Partition], None],
        pace: Pace,
        on_fired: Callable[[tuple[str, ...]], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._config = config
        self.report = report
        self._on_repaired = on_repaired
        self._is_begun = False
        self.open_log = storage.open_log
        self.fetch_purgatory = FetchPurgatory(on_fired=on_fired)
        self.durability = Durability(
            fsync,
            fsync_interval_ms,
            timers=timers,
            start=lambda task: background_tasks.add(task, urgent=True),
            on_durable=self._became_durable,
            on_lost=self._lost,
            report=report,
        )
        self.hides_undurable = self.durability.replies_wait
        self.before_append: Callable[[Partition], None] | None = None
        self.leaders_version = 0
        self.log_recovery = LogRecovery(
            self.durability, timers, background_tasks, on_taken=on_taken, on_repaired=self._repaired, report=report
        )
        self.topics = Topics(
            storage,
            new_topic_id,
            leadership,
            self,
            start=background_tasks.add,
            report=report,
            unlisted=unlisted_topics(config),
        )
        self.producer_snapshots = ProducerSnapshots(
            config, timers, background_tasks, exists=lambda topic: self.topics.named(topic.name) is topic, report=report
        )
        self.log_cleaner = LogCleaner(
            config,
            self.topics,
            storage,
            timers,
            background_tasks,
            is_loading=is_loading,
            on_sealed=self.durability.rolled,
            on_compacted=self.producer_snapshots.compacted,
            report=report,
        )
        self.producer_expiration = ProducerExpiration(
            config, self.topics, background_tasks, pace=pace, on_fired=on_fired
        )
        self.retention = Retention(config, self.topics, background_tasks, pace=pace, on_fired=on_fired, report=report)

    def begin(self, now: Callable[[], Now]) -> None:
        """Start to clean and to delete, once. `now` is the group clock."""
        if self._is_begun:
            return
        self._is_begun = True
        self.log_cleaner.begin(now)
        self.retention.begin(now)
        self.producer_expiration.begin(now())

    def configured(self, topic: Topic) -> None:
        """The configuration that holds for a topic has changed."""
        cleaner_config = CleanerConfig(self._config, topic)
        self.retention.consider(cleaner_config)
        self.log_cleaner.configured(topic, cleaner_config)

    def broker_configured(self) -> None:
        """What topics have from the configuration of brokers may have changed."""
        for topic in self.topics:
            topic.broker_configured()
            self.configured(topic)

    def close(self) -> None:
        """Close every log. Requests that still wait for a sync are not answered. Raises LogError, when all are closed."""
        self.durability.stop()
        self.log_cleaner.compact_before_end()
        self.log_recovery.close()
        self.topics.close()

    # What happens to logs; see `PartitionServices`

    def opened(self, partition: Partition) -> None:
        """See `PartitionServices.opened`."""
        cleaner_config = CleanerConfig(self._config, partition.topic)
        self.durability.opened(partition)
        self.retention.consider(cleaner_config)
        self.log_cleaner.opened(partition, cleaner_config)
        self.producer_snapshots.opened(partition)

    def closing(self, partition: Partition) -> None:
        """See `PartitionServices.closing`."""
        self.durability.closing(partition)
        self.log_cleaner.closing(partition)
        self.producer_snapshots.closing(partition)

    def appended(self, partition: Partition, size_bytes: int) -> None:
        """See `PartitionServices.appended`."""
        self.durability.appended(partition)
        self.log_cleaner.appended(partition, size_bytes)

    def snapshot_due(self, partition: Partition) -> None:
        """See `PartitionServices.snapshot_due`."""
        self.producer_snapshots.save(partition)

    def start_moved(self, partition: Partition) -> None:
        """See `PartitionServices.start_moved`."""
        self.log_cleaner.start_moved(partition)

    def _became_durable(self, partition: Partition, log: Log, before: int) -> None:
        self.log_cleaner.became_durable(partition, log)
        partition.became_durable(before)

    def _lost(self, partition: Partition, error: LogError) -> None:
        self.log_recovery.begin(partition, error)

    def _repaired(self, partition: Partition) -> None:
        self.producer_snapshots.repaired(partition)
        self._on_repaired(partition)
