"""Knowing the producers of a partition without reading all of its log: loaded when it is opened, saved now and then.

A snapshot is written every SNAPSHOT_BYTES, after a compaction that has made an aborted transaction vanish, and at a clean
end; what lies behind it is read when the log is opened, a lot of it slice by slice. Kafka:
UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kshim.partitions.cleaner_config import CleanerConfig
from kshim.storage.log import LogError, OffsetOutOfRange

if TYPE_CHECKING:
    from kshim.config.broker_config import BrokerConfig
    from kshim.partitions.partition import Partition, Topic
    from kshim.partitions.producer_state import ProducerState
    from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
    from kshim.scheduling.timers import Timers
    from kshim.storage.log import Log
    from kshim.storage.producer_snapshot import AbortedTransaction


_READ_AT_ONCE_BYTES: Final = 1 << 20  # some milliseconds
_RUN_BYTES: Final = 1 << 14  # under a millisecond, however small the batches are
_RETRY_MS: Final = 1_000


class ProducerSnapshots:
    """Loads and saves the producers of all partitions of a cluster. `exists(topic)` is False once it is deleted."""

    def __init__(
        self,
        config: BrokerConfig,
        timers: Timers,
        background_tasks: BackgroundTasks,
        *,
        exists: Callable[[Topic], bool],
        report: Callable[[BaseException, object], None],
    ) -> None:
        self._config = config
        self._timers = timers
        self._background_tasks = background_tasks
        self._exists = exists
        self._report = report
        self._saving: set[Partition] = set()

    def opened(self, partition: Partition) -> None:
        """A log is used for the first time, or again. Raises LogError.

        Until a long one has been read, `Partition.require_producers` raises.
        """
        log = partition.opened_log
        assert log is not None
        producers, offset = self._restored(partition, log)
        if log.bytes_from(offset) > _READ_AT_ONCE_BYTES:
            self._background_tasks.add(self._read(partition, log, producers, offset))
            return
        producers.replay(log.batches(offset))
        partition.producers = producers

    def repaired(self, partition: Partition) -> None:
        """As `opened`, for a log that had been taken out for repair; tried again until it succeeds."""
        log = partition.opened_log
        assert log is not None
        try:
            self.opened(partition)
        except LogError as error:
            self._fail(partition, log, error)

    def save(self, partition: Partition) -> None:
        """Write a snapshot soon."""
        if partition.producers is not None:
            partition.producers.unsaved_bytes = 0
            self._background_tasks.add(self._save(partition))

    def compacted(self, partition: Partition, clean_offset: int) -> None:
        """No record of an aborted transaction is left before there, and their markers go too one day."""
        producers = partition.producers
        if producers is not None and producers.transactions.forget_aborted_before(clean_offset):
            self.save(partition)

    def closing(self, partition: Partition) -> None:
        """The log is about to be closed: write a snapshot now, unless its topic goes away."""
        producers, partition.producers = partition.producers, None
        log = partition.opened_log
        if producers is None or log is None or not self._exists(partition.topic):
            return
        try:
            if log.producer_files is not None and producers.saved_offset != log.end_offset and log.segments():
                snapshot = producers.snapshot(log.end_offset)
                log.producer_files.save(snapshot, [segment.base_offset for segment in log.segments()])()
        except LogError as error:
            self._report(error, partition)

    def _restored(self, partition: Partition, log: Log) -> tuple[ProducerState, int]:
        """What a snapshot says, and from which offset on the log has to be read. Raises LogError."""
        # Brings the record batches along, which a start does not need.
        from kshim.partitions.producer_state import ProducerState

        snapshot = None if log.producer_files is None else log.producer_files.load(end_offset=log.end_offset)
        if snapshot is None:
            return ProducerState(), log.start_offset
        aborted = [each for each in snapshot.aborted if each.last_offset >= log.start_offset]
        if aborted and CleanerConfig(self._config, partition.topic).compacts:
            # A crash may have come between the compaction that dropped a marker and the snapshot after it.
            aborted = [each for each in aborted if _has_marker(log, each)]
        return ProducerState.restored(snapshot, aborted), max(snapshot.offset, log.start_offset)

    def _read(self, partition: Partition, log: Log, producers: ProducerState, offset: int) -> BackgroundTask:
        from kshim_protocol.records.batch import iter_batches

        try:
            for run in log.runs(offset, _RUN_BYTES):
                producers.replay(iter_batches(run))
                yield None
                if partition.opened_log is not log:
                    return
        except LogError as error:
            self._fail(partition, log, error)
            return
        partition.producers = producers
        self.save(partition)

    def _fail(self, partition: Partition, log: Log, error: LogError) -> None:
        def try_again() -> None:
            if partition.opened_log is log and partition.producers is None:
                self.repaired(partition)

        self._report(error, partition)
        self._timers.after(_RETRY_MS, try_again, name="producer_snapshot")

    def _save(self, partition: Partition) -> BackgroundTask:
        producers, log = partition.producers, partition.opened_log
        if producers is None or log is None or log.producer_files is None or partition in self._saving:
            return
        self._saving.add(partition)
        try:
            segments = [segment.base_offset for segment in log.segments()]
            if segments:
                snapshot = producers.snapshot(log.end_offset)
                yield log.producer_files.save(snapshot, segments)
                producers.saved_offset = snapshot.offset
        except LogError as error:
            self._report(error, partition)
        finally:
            self._saving.discard(partition)


def _has_marker(log: Log, aborted: AbortedTransaction) -> bool:
    from kshim_protocol.records.batch import parse_batch_header

    try:
        batch = log.read(aborted.last_offset, 0, at_least_one_batch=True)
    except OffsetOutOfRange:
        return False
    header = parse_batch_header(batch) if batch else None
    return (
        header is not None
        and header.is_control
        and header.base_offset == aborted.last_offset
        and header.producer_id == aborted.producer_id
    )
