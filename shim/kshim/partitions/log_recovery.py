"""Logs whose sync has failed: taken out of use, repaired in a thread, used again (docs/design/storage.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.partitions.durability import Durability
    from kshim.partitions.partition import Partition
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log

REPAIR_PAUSE_MS: Final = 1_000
"""How long a log is left alone that could not be repaired."""


class LogRecovery:
    """What is under repair. `on_taken(partition)` is called when a log is taken out of use, `on_repaired(partition)`
    when it is used again."""

    def __init__(
        self,
        durability: Durability,
        timers: Timers,
        background_tasks: BackgroundTasks,
        *,
        on_taken: Callable[[Partition], None],
        on_repaired: Callable[[Partition], None],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._durability = durability
        self._timers = timers
        self._background_tasks = background_tasks
        self._on_taken = on_taken
        self._on_repaired = on_repaired
        self._report = report
        self._logs: dict[Partition, Log] = {}

    def begin(self, partition: Partition, error: LogError) -> None:
        """A sync has failed: nothing is known of what the log holds behind its durable position."""
        self._report(error, partition)
        log = partition.take_log(error)
        self._on_taken(partition)
        if log is not None:
            self._logs[partition] = log
            self._start(partition, log)

    def close(self) -> None:
        """Repair and close what can be, here and now."""
        for partition, log in self._logs.items():
            try:
                self._repair_now(partition, log)
                log.close()
            except LogError as error:
                self._report(error, partition)

    def _start(self, partition: Partition, log: Log) -> None:
        self._background_tasks.add(self._repair(partition, log), urgent=True)

    def _repair(self, partition: Partition, log: Log) -> BackgroundTask:
        """Repair a log in a thread and use it again; all over after a pause if that fails."""
        try:
            yield partial(self._repair_now, partition, log)
        except LogError as error:
            self._report(error, partition)
            self._timers.after(REPAIR_PAUSE_MS, lambda: self._start(partition, log), name="log_repair")
            return
        self._logs.pop(partition, None)
        self._durability.repaired(partition)
        if partition.give_back(log):
            self._on_repaired(partition)
        else:
            log.close()

    def _repair_now(self, partition: Partition, log: Log) -> None:
        """Remove what cannot be trusted if no client has seen it, else write it again; then sync. Blocks; raises LogError."""
        if self._durability.was_shown(partition):
            log.rewrite_unsynced()
        else:
            log.cut_unsynced()
        log.sync()
