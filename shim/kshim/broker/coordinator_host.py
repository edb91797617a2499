"""One coordinator at work in a broker: made on first use, its topic, the shards that are read, what follows a defect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from kshim.broker.coordinator_loader import CoordinatorLoader
from kshim.coordinator.deadlines import Key
from kshim.coordinator.runtime import CoordinatorRuntime
from kshim.coordinator.step import Now, Step
from kshim.partitions.partition import Partition, Topic
from kshim.partitions.topics import Topics
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.pace import Pace
from kshim.scheduling.timers import Timers
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode

C = TypeVar("C", bound=CoordinatorRuntime[Any])


class CoordinatorHost(Generic[C]):
    """`make(partition_count)` makes the coordinator; the count is that of its topic, None as long as there is none.

    `modules` are imported in slices before it is made to read shards; `make_topic` makes its topic and may raise
    LogError; `apply` carries out a Step; `on_corrupt` is called with a log that was damaged when the broker started,
    `on_fired` with each timer that fires.
    """

    def __init__(
        self,
        topic_name: str,
        modules: Sequence[str],
        make: Callable[[int | None], C],
        *,
        topics: Topics,
        make_topic: Callable[[], Topic],
        apply: Callable[[Step], None],
        background_tasks: BackgroundTasks,
        timers: Timers,
        report: Callable[[BaseException, object], None],
        on_corrupt: Callable[[LogError], None],
        pace: Pace,
        on_fired: Callable[[Key], None],
    ) -> None:
        self.topic_name = topic_name
        self.made: C | None = None
        """The coordinator, if anybody has needed it."""
        self.loader = CoordinatorLoader(
            topic_name,
            modules,
            coordinator=lambda: self.coordinator,
            made_coordinator=lambda: self.made,
            topics=topics,
            apply=apply,
            background_tasks=background_tasks,
            timers=timers,
            report=report,
            on_corrupt=on_corrupt,
        )
        self._make = make
        self._topics = topics
        self._make_topic = make_topic
        self._apply = apply
        self._pace = pace
        self._on_fired = on_fired

    @property
    def coordinator(self) -> C:
        """The coordinator. Its modules are a large part of the start-up, so it is made when first asked for."""
        if self.made is None:
            topic = self._topics.named(self.topic_name)
            self.made = self._make(None if topic is None else len(topic.partitions))
            self.made.on_load_wanted = self.loader.wanted
            self.made.on_fired = self._on_fired
            self.made.next_check = self._pace.next_check
            self.loader.coordinator_made(self.made)
        return self.made

    def topic(self) -> Topic:
        """Its topic, made when it is first needed. Raises LogError."""
        topic = self._topics.named(self.topic_name)
        return self._make_topic() if topic is None else topic

    def partition(self, index: int) -> Partition:
        """The log of one shard. Raises LogError as `topic` does."""
        return self.topic().partitions[index]

    def advance(self, now: Now) -> None:
        """Fire the timers that are due. A coordinator stops at each write: what follows depends on its fate."""
        coordinator = self.made
        if coordinator is not None:
            while (deadline_ms := coordinator.next_deadline()) is not None and deadline_ms <= now.mono_ms:
                self._apply(coordinator.advance(now))

    def reload(self, index: int) -> None:
        """Forget a shard's state and read it from its log again."""
        self.loader.drop(index, ErrorCode.NOT_COORDINATOR)
        self.loader.load(index)

    def take_at_work(self) -> set[int]:
        """The shard that the input of this moment may have left inconsistent, if there is one; it is named only once."""
        step = None if self.made is None else self.made.step
        if step is None or step.at_work is None:
            return set()
        index, step.at_work = step.at_work, None
        return {index}
