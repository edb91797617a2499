"""When appended data is durable, and what waits for it (docs/design/storage.md).

    always     synced as soon as something is appended; `when_durable` waits for it
    interval   each log that has grown is synced every `interval_ms`; nothing waits
    never      only at roll and close; nothing waits

A sync runs as a task: some logs one after the other in a thread, several of them side by side. Appends go on meanwhile;
what they add is for the next sync, which begins when this one has ended (group commit).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.partitions.partition import Partition
    from kshim.scheduling.background_tasks import BackgroundTask
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log, Sync


FsyncPolicy = Literal["always", "interval", "never"]

Done = Callable[[Collection["Partition"]], None]
"""Called with the partitions that have lost what was waited for; none when all is well."""

_LOGS_A_TASK: Final = 8
"""A thread for every log would cost more than most syncs; one for all would have them wait for each other."""
_ROLL_CHECK_MS: Final = 1_000
"""Under `never`: the interval of checks for segments that are complete and not synced."""


class _Wait:
    """Waits for `count` more partitions."""

    __slots__ = ("count", "done", "lost")

    def __init__(self, count: int, done: Done) -> None:
        self.count = count
        self.done = done
        self.lost: list[Partition] = []


class Durability:
    """The policy of one cluster at work.

    `start` takes tasks that should begin at once. `on_durable(partition, log, offset)` is called when the durable
    position has moved on from `offset`; `on_lost(partition, error)` when a sync has failed, before those that waited
    are called back; `report` of exceptions that should not be. `replies_wait` says whether `when_durable` ever waits.
    """

    def __init__(
        self,
        policy: FsyncPolicy,
        interval_ms: int,
        *,
        timers: Timers,
        start: Callable[[BackgroundTask], None],
        on_durable: Callable[[Partition, Log, int], None],
        on_lost: Callable[[Partition, LogError], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self.policy = policy
        self.replies_wait = policy == "always"
        self._held: dict[Partition, int] = {}  # how many times at once
        # Under `always`: logs with something behind their durable position that an earlier process may have shown.
        self._leftovers: set[Partition] = set()
        self._interval_ms = interval_ms
        self._timers = timers
        self._start = start
        self._on_durable = on_durable
        self._on_lost = on_lost
        self._report = report
        self._grown: dict[Partition, None] = {}  # since the last timer, if nothing waits
        self._due: dict[Partition, None] = {}  # to be synced as soon as may be
        self._syncing: set[Partition] = set()
        self._is_started = False  # a task is on its way that will look at _due
        self._waits: dict[Partition, deque[tuple[int, _Wait]]] = {}

    # What happens

    def opened(self, partition: Partition) -> None:
        """A log is used for the first time. What an earlier process has left may not be durable yet. Raises LogError.

        Where it has to be, it becomes so here and now, on the loop: to show less than that process had shown would be
        worse. After a clean shutdown, or a start that has checked the ends of all logs, nothing is left to do.
        """
        if not _has_undurable(partition):
            return
        if self.policy != "always":
            self.appended(partition)
            return
        log = partition.opened_log
        assert log is not None
        self._leftovers.add(partition)
        try:
            log.sync()
        except LogError as error:
            self._on_lost(partition, error)
            raise
        self._leftovers.discard(partition)

    def appended(self, partition: Partition) -> None:
        """The partition's log has grown."""
        if self.policy == "always":
            if partition not in self._due:
                self._due[partition] = None
                self._wake()
            return
        if not self._grown:
            if self.policy == "interval":
                self._timers.after(self._interval_ms, self._interval_over, name="log_sync")
            else:
                self._timers.after(_ROLL_CHECK_MS, self._look_for_rolls, name="log_sync")
        self._grown[partition] = None

    def rolled(self, partition: Partition) -> None:
        """The partition's log has begun a new segment: the one before it is synced under every policy."""
        if partition not in self._due:
            self._due[partition] = None
            self._wake()

    def closing(self, partition: Partition) -> None:
        """The partition is deleted: nothing waits for it any longer."""
        self._grown.pop(partition, None)
        self._due.pop(partition, None)
        self._held.pop(partition, None)
        self._settle_all(partition)

    def was_shown(self, partition: Partition) -> bool:
        """Whether clients may know of what lies behind the durable position of the log."""
        return self.policy != "always" or partition in self._leftovers

    def repaired(self, partition: Partition) -> None:
        """The log is durable to its end, after a sync of it had failed."""
        self._leftovers.discard(partition)

    def stop(self) -> None:
        """Call no callback and start no sync any more."""
        self._is_started = True
        self._waits.clear()

    # Waiting

    def undurable(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of `partitions` that hold something that `when_durable` would wait for."""
        if not self.replies_wait:
            return []
        syncs = self.policy == "always"
        return [
            partition for partition in partitions if partition in self._held or (syncs and _has_undurable(partition))
        ]

    def when_durable(self, partitions: Collection[Partition], done: Done) -> None:
        """Call `done` once all that is in the logs of `partitions` by now is durable or lost; perhaps at once.

        First come, first served for each partition.
        """
        undurable = self.undurable(partitions)
        if not undurable:
            done(())
            return
        wait = _Wait(len(undurable), done)
        for partition in undurable:
            log = partition.opened_log
            assert log is not None
            self._waits.setdefault(partition, deque()).append((log.end_offset, wait))
            self.appended(partition)

    def hold(self, partition: Partition, hold_ms: int) -> None:
        """Have the next sync of a log take so long, as on a slow disk: under every policy `when_durable` waits for it."""
        self._held[partition] = self._held.get(partition, 0) + 1
        self.replies_wait = True
        self._timers.after(hold_ms, partial(self._let_go, partition), name="fault")

    def _let_go(self, partition: Partition) -> None:
        count = self._held.pop(partition, 0)
        if count > 1:
            self._held[partition] = count - 1
        self.replies_wait = self.policy == "always" or bool(self._held)
        if partition in self._held:
            return
        if self.policy == "always":
            if partition in self._waits:
                self._due[partition] = None
            self._wake()
        else:
            self._settle_all(partition)

    # Syncing

    def _interval_over(self) -> None:
        self._due.update(self._grown)
        self._grown.clear()
        self._wake()

    def _look_for_rolls(self) -> None:
        for partition in self._grown:
            log = partition.opened_log
            if log is not None and log.durable_offset < log.end_offset:
                segments = log.segments()
                if len(segments) > 1 and segments[-1].base_offset > log.durable_offset:
                    self._due[partition] = None
        self._grown.clear()
        self._wake()

    def _is_free(self, partition: Partition) -> bool:
        return partition not in self._syncing and partition not in self._held

    def _wake(self) -> None:
        if not self._is_started and any(map(self._is_free, self._due)):
            self._is_started = True
            self._start(self._sync())

    def _sync(self) -> BackgroundTask:
        """Sync some of the logs that are due; start another task for more of them."""
        self._is_started = False
        begun = list(self._begin())
        self._wake()
        if not begun:
            return
        try:
            errors = yield lambda: [_run(sync) for _, _, sync in begun]
            for (partition, log, sync), error in zip(begun, errors, strict=True):
                self._end(partition, log, sync, error)
        finally:
            self._syncing.difference_update(partition for partition, _, _ in begun)
        self._wake()

    def _begin(self) -> Iterable[tuple[Partition, Log, Sync]]:
        free = list(filter(self._is_free, self._due))
        for partition in free[:_LOGS_A_TASK]:
            del self._due[partition]
            log = partition.opened_log
            if log is None:  # closed meanwhile, and close syncs
                continue
            try:
                sync = log.begin_sync()
            except LogError as error:
                self._lose(partition, error)
                continue
            if sync is None:
                self._release(partition, log)
            else:
                self._syncing.add(partition)
                yield partition, log, sync

    def _end(self, partition: Partition, log: Log, sync: Sync, error: LogError | None) -> None:
        before = log.durable_offset
        if error is None:
            try:
                sync.finish()
            except LogError as failure:
                error = failure
        else:
            sync.failed(error)
        if partition.opened_log is not log:
            return  # deleted or closed meanwhile; `closing` has called the waiting callbacks
        if error is not None:
            self._lose(partition, error)
            return
        if log.durable_offset > before:
            self._on_durable(partition, log, before)
        self._release(partition, log)

    # Calling back

    def _release(self, partition: Partition, log: Log) -> None:
        waits = self._waits.get(partition)
        if waits is None:
            return
        durable_offset = log.durable_offset
        while waits and waits[0][0] <= durable_offset:
            self._settle(waits.popleft()[1])
        if not waits:
            self._waits.pop(partition, None)

    def _lose(self, partition: Partition, error: LogError) -> None:
        waits = self._waits.pop(partition, ())
        self._on_lost(partition, error)
        for _, wait in waits:
            wait.lost.append(partition)
            self._settle(wait)

    def _settle_all(self, partition: Partition) -> None:
        for _, wait in self._waits.pop(partition, ()):
            self._settle(wait)

    def _settle(self, wait: _Wait) -> None:
        wait.count -= 1
        if wait.count:
            return
        try:
            wait.done(wait.lost)
        except Exception as error:  # must not affect other waiting callbacks
            self._report(error, None)


def _has_undurable(partition: Partition) -> bool:
    log = partition.opened_log
    return log is not None and log.durable_offset < log.end_offset


def _run(sync: Sync) -> LogError | None:
    """In a thread. What it raises is kept, so that one log's failure is not another's."""
    try:
        sync.run()
    except LogError as error:
        return error
    except OSError as error:
        failure = LogError(f"cannot sync: {error.strerror or error}")
        failure.__cause__ = error
        return failure
    return None
