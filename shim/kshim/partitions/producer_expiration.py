"""When producers that write no more are forgotten. No clock: `now` is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.coordinator.step import Now
    from kshim.partitions.partition import Topic
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
    from kshim.scheduling.pace import Pace

CHECK_INTERVAL_MS: Final = 600_000
"""Kafka's default of producer.id.expiration.check.interval.ms, an internal key."""


class ProducerExpiration:
    """Looks at the producers of every partition of `topics`, every `CHECK_INTERVAL_MS`; `on_fired` is called each time.

    Kafka: UnifiedLog.removeExpiredProducers.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Iterable[Topic],
        background_tasks: BackgroundTasks,
        *,
        pace: Pace,
        on_fired: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._config = config
        self._topics = topics
        self._background_tasks = background_tasks
        self._pace = pace
        self._on_fired = on_fired
        self.next_ms: int | None = None
        """When `advance` is due (ms, `Now.mono_ms`); None before `begin`."""

    def begin(self, now: Now) -> None:
        """Start to look."""
        self.next_ms = now.mono_ms + CHECK_INTERVAL_MS

    def advance(self, now: Now) -> None:
        """Look, when it is time."""
        if self.next_ms is not None and self.next_ms <= now.mono_ms:
            self.next_ms = self._pace.next_check(now.mono_ms, CHECK_INTERVAL_MS)
            self._on_fired(("producer_expiration",))
            self._background_tasks.add(self._expire(now.wall_ms))

    def _expire(self, now_ms: int) -> BackgroundTask:
        for topic in self._topics:
            for partition in list(topic.partitions):
                if partition.producers is not None:
                    partition.producers.expire(now_ms, expiration_ms=self._config.producer_id_expiration_ms)
                yield None
