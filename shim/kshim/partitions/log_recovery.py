"""Logs whose sync has failed: taken out of use, repaired in a thread, used again (docs/design/storage.md)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kshim.storage.log import LogError

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.partitions.topics import Partition
    from kshim.scheduling.background_tasks import BackgroundTask
    from kshim.storage.log import Log


REPAIR_PAUSE_MS: Final = 1_000
"""How long a log is left alone that could not be repaired."""


class LogRecovery:
    """What is under repair. A coordinator's shard whose log is in here is given up until that is over."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._logs: dict[Partition, Log] = {}

    def begin(self, partition: Partition, error: LogError) -> None:
        """A sync has failed: nothing is known of what the log holds behind its durable position."""
        cluster = self._cluster
        cluster.report(error, partition)
        log = partition.take_log(error)
        loads = cluster.loads_of(partition)
        if loads is not None:
            loads.drop(partition.index)
        if log is not None:
            self._logs[partition] = log
            cluster.background_tasks.add(self._repair(partition, log), urgent=True)

    def _repair(self, partition: Partition, log: Log) -> BackgroundTask:
        """Repair a log in a thread and use it again; all over after a pause if that fails."""
        cluster = self._cluster
        try:
            yield partial(self._repair_now, partition, log)
        except LogError as error:
            cluster.report(error, partition)
            again = partial(cluster.background_tasks.add, urgent=True)
            cluster.timers.after(REPAIR_PAUSE_MS, lambda: again(self._repair(partition, log)))
            return
        self._logs.pop(partition, None)
        cluster.durability.leftovers.discard(partition)
        if not partition.give_back(log):
            log.close()
            return
        cluster.producer_snapshots.repaired(partition)
        loads = cluster.loads_of(partition)
        if loads is not None:
            loads.load(partition.index)

    def _repair_now(self, partition: Partition, log: Log) -> None:
        """Cut what cannot be trusted if nobody was told of it, else write it anew; then sync. Blocks; raises LogError."""
        durability = self._cluster.durability
        if durability.replies_wait and partition not in durability.leftovers:
            log.cut_unsynced()
        else:
            log.rewrite_unsynced()
        log.sync()

    def close(self) -> None:
        """Repair and close what can be, here and now."""
        for partition, log in self._logs.items():
            try:
                self._repair_now(partition, log)
                log.close()
            except LogError as error:
                self._cluster.report(error, partition)
