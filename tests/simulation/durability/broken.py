"""Brokers with one defect each in what they know of durability, made by patching: the simulation must find them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kshim.broker.coordinator_loader import CoordinatorLoader
from kshim.broker.step_applier import StepApplier
from kshim.coordinator.groups.replay import Replay
from kshim.partitions.durability import Durability, FsyncPolicy
from kshim.partitions.log_recovery import LogRecovery
from kshim.partitions.partition import Partition
from kshim.storage.file_log import FileLog
from kshim.storage.log import Log
from kshim_protocol.records.batch import iter_batches

Defect = tuple[FsyncPolicy, Callable[[], AbstractContextManager[Any]]]


def _replaced(owner: type, name: str, with_: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(owner, name, with_)


def _reads_do_not_wait() -> AbstractContextManager[Any]:
    def only_written(self: StepApplier, step: Any) -> list[Partition]:
        return [self._coordinators[step.topic].partition(append.partition) for append in step.appends]

    return patch.object(StepApplier, "partitions_of", only_written)


def _first_shard_is_enough() -> AbstractContextManager[Any]:
    original = Durability.undurable
    return patch.object(Durability, "undurable", lambda self, partitions: original(self, partitions)[:1])


def _released_with_the_sync_before() -> AbstractContextManager[Any]:
    def release(self: Durability, partition: Partition, _log: Any) -> None:
        for _, wait in self._waits.pop(partition, ()):
            self._settle(wait)

    return patch.object(Durability, "_release", release)


def _a_failed_sync_counts() -> AbstractContextManager[Any]:
    original = Durability._end

    def end(self: Durability, partition: Partition, log: Any, sync: Any, _error: Any) -> None:
        original(self, partition, log, sync, None)

    return patch.object(Durability, "_end", end)


def _who_waited_is_forgotten() -> AbstractContextManager[Any]:
    original = Durability._lose

    def lose(self: Durability, partition: Partition, error: Any) -> None:
        self._waits.pop(partition, None)
        original(self, partition, error)

    return patch.object(Durability, "_lose", lose)


def _who_waited_is_told_all_is_well() -> AbstractContextManager[Any]:
    original = Durability._lose

    def lose(self: Durability, partition: Partition, error: Any) -> None:
        for _, wait in self._waits.pop(partition, ()):
            self._settle(wait)
        original(self, partition, error)

    return patch.object(Durability, "_lose", lose)


def _shards_keep_what_was_lost() -> AbstractContextManager[Any]:
    # The log is repaired, but nobody reads it again.
    drop, load = CoordinatorLoader.drop, CoordinatorLoader.load

    def drop_unread(self: CoordinatorLoader, index: int, *error: Any) -> None:
        if index in self._pending:
            drop(self, index, *error)

    def load_dropped(self: CoordinatorLoader, index: int) -> None:
        if index in self._coordinator()._unloaded:
            load(self, index)

    @contextmanager
    def both() -> Iterator[None]:
        with (
            patch.object(CoordinatorLoader, "drop", drop_unread),
            patch.object(CoordinatorLoader, "load", load_dropped),
        ):
            yield

    return both()


def _the_next_sync_is_never_begun() -> AbstractContextManager[Any]:
    original = Durability.appended

    def appended(self: Durability, partition: Partition) -> None:
        if partition not in self._syncing:
            original(self, partition)

    return patch.object(Durability, "appended", appended)


def _nothing_is_written_again(self: FileLog) -> None:
    # As if a second fdatasync would do what the first could not.
    end_offset = self.end_offset
    self._unsynced.failure = None
    self._begin_repair()
    assert self.end_offset == end_offset


def _leftovers_are_cut() -> AbstractContextManager[Any]:
    return patch.object(LogRecovery, "_repair_now", lambda self, _partition, log: (log.cut_unsynced(), log.sync()))


def _fetch_shows_all() -> AbstractContextManager[Any]:
    @contextmanager
    def all_of_it() -> Iterator[None]:
        with (
            patch.object(Partition, "high_watermark", property(lambda self: self.log.end_offset)),
            patch.object(Partition, "read", lambda self, offset, size, at_least_one_batch: self.log.read(offset, size)),
        ):
            yield

    return all_of_it()


def _producers_do_not_wait() -> AbstractContextManager[Any]:
    original = Durability.when_durable

    def when_durable(self: Durability, partitions: Any, done: Any) -> None:
        if "answer_all" in getattr(done, "__name__", ""):
            done(())
        else:
            original(self, partitions, done)

    return patch.object(Durability, "when_durable", when_durable)


def _a_shard_is_read_in_part() -> AbstractContextManager[Any]:
    from kshim.broker import coordinator_loader

    def all_but_the_newest(replay: Replay, log: Log) -> Iterator[None]:
        for run in log.runs():
            yield from replay.feed(b"".join(list(iter_batches(run))[:-1]))
        yield from replay.finish()

    return patch.object(coordinator_loader, "_replaying", all_but_the_newest)


DEFECTS: dict[str, Defect] = {
    "replies do not wait": ("always", _replaced(Durability, "undurable", lambda *_: [])),
    "reads do not wait": ("always", _reads_do_not_wait),
    "only one shard is waited for": ("always", _first_shard_is_enough),
    "a sync releases what came after it began": ("always", _released_with_the_sync_before),
    "a failed sync counts": ("always", _a_failed_sync_counts),
    "a failed sync counts (interval)": ("interval", _a_failed_sync_counts),
    "who waited for a failed sync is forgotten": ("always", _who_waited_is_forgotten),
    "who waited for a failed sync is told that all is well": ("always", _who_waited_is_told_all_is_well),
    "a shard keeps what its log has lost": ("always", _shards_keep_what_was_lost),
    "what comes during a sync is never synced": ("always", _the_next_sync_is_never_begun),
    "a failed sync is tried again without writing": (
        "interval",
        _replaced(FileLog, "rewrite_unsynced", _nothing_is_written_again),
    ),
    "what was acknowledged is cut": ("interval", _leftovers_are_cut),
    "consumers see what is not durable": ("always", _fetch_shows_all),
    "producers do not wait": ("always", _producers_do_not_wait),
    "a shard is not read to its end": ("always", _a_shard_is_read_in_part),
}
