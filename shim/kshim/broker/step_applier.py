"""Carrying out what coordinators decide: the one place where the order of writing, answering and publishing is fixed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kshim.coordinator.step import Errand, Event, Lookup, Step, TopicsWanted
from kshim.partitions.durability import Durability
from kshim.partitions.partition import Partition
from kshim.partitions.topics import Topics
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kshim.broker.coordinator_host import CoordinatorHost
    from kshim.broker.marker_writer import MarkerWriter
    from kshim.config.broker_config import BrokerConfig


class StepApplier:
    """Applies Steps of the coordinators, which are found by their topic.

    `listeners()` are called with every event.
    """

    def __init__(
        self,
        config: BrokerConfig,
        coordinators: Mapping[str, CoordinatorHost[Any]],
        topics: Topics,
        durability: Durability,
        *,
        marker_writer: Callable[[], MarkerWriter],
        look_up: Callable[[Lookup], None],
        run: Callable[[Errand], None],
        make: Callable[[TopicsWanted], None],
        listeners: Callable[[], Sequence[Callable[[Event], None]]],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._config = config
        self._coordinators = coordinators
        self._topics = topics
        self._durability = durability
        self._marker_writer = marker_writer
        self._look_up = look_up
        self._run = run
        self._make = make
        self._listeners = listeners
        self._report = report
        self.on_appended: list[Callable[[Step], None]] = []
        """Called with each step that has tried to append, once its coordinator knows the result; must not raise."""

    def apply(self, step: Step) -> None:
        """Apply a Step: append, inform the coordinator of the result, then release replies, then publish events.

        Where replies wait until they are safe from power loss, they and the events are released after that. An exception
        is a defect; `step.at_work` then says which shard it may have left half changed.
        """
        for append in step.appends:  # grows when what follows from an append brings another
            host = self._coordinators[step.topic]
            host.coordinator.step = step
            step.at_work = append.partition
            try:
                partition = host.partition(append.partition)
                partition.topic.batch_validator(self._config).check_coordinator_batch(append.batch)
                base_offset = partition.append(append.batch, append.now_ms)
            except KafkaError as error:
                append.failed(error.code, step)
            except LogError as error:
                self._report(error, append)
                append.failed(ErrorCode.KAFKA_STORAGE_ERROR, step)
            else:
                append.written(base_offset, step)
        if step.appends:
            for listener in self.on_appended:
                listener(step)
        if self._durability.replies_wait and (step.replies or step.events):
            undurable = self._durability.undurable(self.partitions_of(step))
            if undurable:
                self._hold(step, undurable)
                step.at_work = None
                self._go_on(step)
                return
        for ticket, response in step.replies:
            ticket.complete(response)  # type: ignore[attr-defined]
        if step.events:
            self._publish(step.events)
        step.at_work = None
        if step.once_durable or step.log_starts or step.markers or step.lookups or step.errands or step.topics_wanted:
            self._go_on(step)

    def partitions_of(self, step: Step) -> list[Partition]:
        """Those whose state the step is made from, or that it has changed."""
        topic = self._topics.named(step.topic)
        if topic is None:
            return []
        return [topic.partitions[index] for index in {*step.partitions, *(append.partition for append in step.appends)}]

    def _hold(self, step: Step, undurable: list[Partition]) -> None:
        """Release a step once its logs are durable; where one has lost what it held, its replies become errors."""

        def release(lost: Collection[Partition]) -> None:
            for ticket, response in step.replies:
                self._complete(ticket, response, ErrorCode.COORDINATOR_NOT_AVAILABLE if lost else None)
            if len(undurable) == 1 and not lost:
                self._publish(step.events)

        self._durability.when_durable(undurable, release)
        if len(undurable) > 1:  # events do not wait for another shard
            for partition in undurable:
                events = [event for event in step.events if event.partition == partition.index]
                self._durability.when_durable((partition,), partial(self._publish_unless_lost, events))
            waiting = {partition.index for partition in undurable}
            self._publish(event for event in step.events if event.partition not in waiting)

    def _complete(self, ticket: Any, response: object, error: ErrorCode | None) -> None:
        """Answer a request that waited; what goes wrong must not stop the others."""
        try:
            if error is not None:
                ticket.refuse(error)
            else:
                ticket.complete(response)
        except Exception as defect:
            self._report(defect, ticket)

    def _publish_unless_lost(self, events: Iterable[Event], lost: Collection[Partition]) -> None:
        if not lost:
            self._publish(events)

    def _publish(self, events: Iterable[Event]) -> None:
        listeners = self._listeners()
        for event in events:
            for listener in listeners:
                try:
                    listener(event)
                except Exception as error:  # a listener must not affect the group
                    self._report(error, event)

    # What follows a step

    def _go_on(self, step: Step) -> None:
        """The appends of a step were tried and its answers released, or held."""
        if step.once_durable:
            logs = self.partitions_of(step)
            for then in step.once_durable:
                self._when_durable(step, logs, partial(self._decided, then))
        if step.log_starts:
            self._when_durable(step, self.partitions_of(step), partial(self._delete_beginnings, step))
        for lookup in step.lookups:
            self._look_up(lookup)
        for errand in step.errands:
            self._guard(step, partial(self._run, errand))
        for wanted in step.topics_wanted:
            self._guard(step, partial(self._make, wanted))
        for marker in step.markers:
            self._guard(step, partial(self._marker_writer().write, marker, partial(self._when_durable, step)))

    def _decided(self, then: Callable[[], Step | None], lost: Collection[Partition]) -> None:
        following = None if lost else then()  # lost: the shard has been given up
        if following is not None:
            self.apply(following)

    def _delete_beginnings(self, step: Step, lost: Collection[Partition]) -> None:
        """Have logs begin later, now that what makes their beginnings dispensable is durable."""
        if lost:
            return
        for index, offset in step.log_starts:
            partition = self._topics.partition(step.topic, index)
            try:
                if partition is not None and offset > partition.log.start_offset:
                    partition.delete_before(offset)
            except LogError as error:
                self._report(error, partition)

    def _when_durable(
        self, step: Step, logs: Collection[Partition], done: Callable[[Collection[Partition]], None]
    ) -> None:
        """As `Durability.when_durable`, with `done` guarded."""
        self._durability.when_durable(logs, lambda lost: self._guard(step, partial(done, lost)))

    def _guard(self, step: Step, follow: Callable[[], object]) -> None:
        """Do what follows a step; its shards are among those that a defect in that may have left inconsistent."""
        try:
            follow()
        except Exception as error:
            self.defect(error, None, step)

    def defect(self, error: BaseException, request: object, step: Step | None = None) -> None:
        """An unexpected exception: report it, and load the shards again that it may have left inconsistent.

        Those are what each coordinator was at work in, and the shards of `step`, where the exception is from what
        follows that. `request` is what was being handled, None for anything else.
        """
        self._report(error, request)
        for host in self._coordinators.values():
            indexes = host.take_at_work()
            if step is not None and step.topic == host.topic_name:
                indexes.update(step.partitions)
            for index in indexes:
                host.reload(index)
