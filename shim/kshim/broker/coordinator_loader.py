"""Reading shards of the coordinator from their logs: after a start, and after a log or a shard was given up.

One task reads them one after the other, in slices; those that requests wait for come first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from importlib import import_module
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from kshim.storage.log import CorruptLog, LogError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError

if TYPE_CHECKING:
    from kshim.coordinator.runtime import CoordinatorRuntime, Replaying
    from kshim.coordinator.step import Now, Step
    from kshim.partitions.topics import Topics
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log


RETRY_PAUSE_MS: Final = 1_000
"""How long a shard is left alone whose log could not be read; requests get COORDINATOR_NOT_AVAILABLE meanwhile."""


class CoordinatorLoader:
    """Which shards of one coordinator are still to be read. A shard in here is loading in it, once it is made.

    `topic_name` is where its shards are kept, `modules` are imported before it is made, `coordinator()` makes it if need
    be, `made_coordinator()` does not.
    """

    def __init__(
        self,
        topic_name: str,
        modules: Sequence[str],
        *,
        coordinator: Callable[[], CoordinatorRuntime[Any]],
        made_coordinator: Callable[[], CoordinatorRuntime[Any] | None],
        topics: Topics,
        apply: Callable[[Step], None],
        background_tasks: BackgroundTasks,
        timers: Timers,
        report: Callable[[BaseException, object], None],
        on_corrupt: Callable[[LogError], None],
    ) -> None:
        self._topic_name = topic_name
        self._modules = modules
        self._coordinator = coordinator
        self._made_coordinator = made_coordinator
        self._topics = topics
        self._apply = apply
        self._background_tasks = background_tasks
        self._timers = timers
        self._report = report
        self._on_corrupt = on_corrupt
        self._now: Callable[[], Now] | None = None
        self._pending: dict[int, object] = {}  # a new object each time, which identifies one load
        self._wanted: dict[int, None] = {}
        self._at_start: set[int] = set()
        self._leaderless: set[int] = set()
        self._reading: GeneratorType[None, None, None] | None = None
        self._waiting: list[tuple[frozenset[int], Callable[[], None]]] = []
        self.on_loaded: list[Callable[[], None]] = []
        """Called when a shard has been read, whatever it holds; must not raise."""

    def begin(self, now: Callable[[], Now]) -> None:
        """Begin to read all shards there are; only the first call does. `now` is the group clock, also for later loads."""
        if self._now is not None:
            return
        self._now = now
        topic = self._topics.named(self._topic_name)
        if topic is not None:
            self._pending.update((partition.index, object()) for partition in topic.partitions)
            self._at_start.update(self._pending)
            self._run()

    def coordinator_made(self, coordinator: CoordinatorRuntime[Any]) -> None:
        """There is a coordinator from now on: refuse requests of every shard that was not read yet."""
        for index in self._pending:
            coordinator.begin_load(index)

    def wanted(self, index: int) -> None:
        """A request needs a shard that is still loading."""
        if index in self._pending:
            self._wanted[index] = None

    def when_read(self, indexes: Collection[int], then: Callable[[], None]) -> None:
        """Call `then` when none of these shards is to be read any more, perhaps because it was given up; it must not raise.

        In the order of the calls where several wait; at once, where there is nothing to wait for.
        """
        waits_for = frozenset(index for index in indexes if index in self._pending)
        if not waits_for:
            then()
            return
        for index in waits_for:
            self.wanted(index)
        self._waiting.append((waits_for, then))

    def _wake(self) -> None:
        ready = [then for indexes, then in self._waiting if not indexes & self._pending.keys()]
        self._waiting = [one for one in self._waiting if one[0] & self._pending.keys()]
        for then in ready:
            then()

    @property
    def pending_count(self) -> int:
        """How many shards are still to be read."""
        return len(self._pending)

    def is_pending(self, index: int) -> bool:
        """Whether a shard is being read, or still to be read."""
        return index in self._pending

    def load(self, index: int) -> None:
        """Read a shard that was dropped. One that is to be read already, after an earlier failure, is read once."""
        if index in self._pending:
            return
        self._coordinator().begin_load(index)
        self._pending[index] = object()
        self._run()

    def moved(self, index: int, *, is_led: bool = True) -> None:
        """A shard has another leader, which loads it from the log; waiting clients have to look it up.

        Without a leader it is only unloaded until there is one. A shard that was not used yet has
        nothing to forget; one that could not be read, or whose log is under repair, is read when that is over.
        """
        coordinator = self._made_coordinator()
        if coordinator is not None and coordinator.has_shard(index):
            self.drop(index, ErrorCode.NOT_COORDINATOR)
            self._leaderless.add(index)
        if is_led and index in self._leaderless:
            self._leaderless.discard(index)
            self.load(index)

    def drop(self, index: int, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """Forget a shard's state; requests that wait in it, and those that come until `load`, are answered `error`."""
        self._pending.pop(index, None)
        self._wanted.pop(index, None)
        if self._waiting:
            self._timers.after(0, self._wake, name="shard_load")  # it may be loaded again at once
        step = self._coordinator().unload(index, error)
        # A request that met a defect may be parked in there and is answered already.
        step.replies = [(ticket, response) for ticket, response in step.replies if not ticket.is_answered]  # type: ignore[attr-defined]
        self._apply(step)

    def finish(self) -> None:
        """Read all that is left now, for a caller that does not want to wait. Nothing, where a slice is being read: it has called."""
        reading = self._reading
        if reading is not None and not reading.gi_running:
            for _ in reading:
                pass

    def _run(self) -> None:
        if self._reading is None:
            self._reading = cast("GeneratorType[None, None, None]", self._read_all())
            self._background_tasks.add(self._in_slices(self._reading), urgent=True)

    @staticmethod
    def _in_slices(reading: Iterator[None]) -> BackgroundTask:
        for _ in reading:
            yield None

    def _read_all(self) -> Generator[None, None, None]:
        try:
            for module in self._modules:
                import_module(module)
                yield
            self._coordinator()
            while self._pending:
                index = next(iter(self._wanted or self._pending))
                yield from self._read(index)
                yield
        finally:
            self._reading = None

    def _read(self, index: int) -> Iterator[None]:
        reading = self._pending[index]
        is_start = index in self._at_start
        self._at_start.discard(index)
        try:
            partition = self._topics.partition(self._topic_name, index)
            if partition is not None:  # where there is no topic yet, nothing was ever written
                for _ in _replaying(self._coordinator().begin_replay(index), partition.log):
                    yield
                    if self._pending.get(index) is not reading:
                        return  # dropped meanwhile
        except Exception as error:
            if self._pending.get(index) is reading:  # else its log is being repaired
                self._failed(index, error, is_start=is_start)
            return
        del self._pending[index]
        self._wanted.pop(index, None)
        assert self._now is not None
        try:
            self._apply(self._coordinator().finish_load(index, self._now()))
        except Exception as error:
            self._failed(index, error, is_start=is_start)
        for listener in self.on_loaded:
            listener()
        self._wake()

    def _failed(self, index: int, error: Exception, *, is_start: bool) -> None:
        """Damage that was there at the start ends the broker; anything else may be better after a while."""
        self.drop(index)
        damage: LogError | None = error if isinstance(error, CorruptLog) else None
        if isinstance(error, ProtocolError):
            damage = LogError(f"{self._topic_name}-{index} holds a record that cannot be read: {error}")
        if is_start and damage is not None:
            self._on_corrupt(damage)
            return
        self._report(damage or error, self._topics.partition(self._topic_name, index))
        self._timers.after(RETRY_PAUSE_MS, lambda: self._retry(index), name="shard_load")

    def _retry(self, index: int) -> None:
        """Read a shard again that could not be read, unless it was loaded meanwhile or has nobody to lead it."""
        if not self._coordinator().has_shard(index) and index not in self._leaderless:
            self.load(index)


def _replaying(replay: Replaying, log: Log) -> Iterator[None]:
    """All of it, in slices of less than a millisecond."""
    for run in log.runs():
        yield from replay.feed(run)
        yield None
    yield from replay.finish()
