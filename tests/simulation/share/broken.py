"""Brokers with one defect each in what they know of share groups, made by patching: the simulation must find them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kshim.broker.handlers.share.reading import Run as ReadRun
from kshim.coordinator.share_state import share_state
from kshim.coordinator.share_state.replay import ShareStateReplay
from kshim.coordinator.share_state.shard import ShareStateShard
from kshim.coordinator.share_state.share_state import Batch, ShareState
from kshim.coordinator.step import Step
from kshim.partitions.fetch_purgatory import FetchPurgatory
from kshim.share_partitions import share_partition
from kshim.share_partitions.acquisition import Limits
from kshim.share_partitions.in_flight import RecordState, Run
from kshim.share_partitions.share_partition import GAP, RELEASE, RENEW, SharePartition
from kshim.share_partitions.share_partitions import Delivery, SharePartitions
from kshim.share_partitions.share_sessions import ShareSessions
from kshim.share_partitions.window import Window
from kshim_protocol.errors import ErrorCode
from kshim_protocol.internal.share_state import ShareUpdateKey
from kshim_protocol.internal.share_state_records import parse_share_key
from kshim_protocol.records.batch import iter_batches

Defect = Callable[[], AbstractContextManager[Any]]


def _replaced(owner: Any, name: str, with_: Any) -> Defect:
    return lambda: patch.object(owner, name, with_)


def _around(owner: Any, name: str, changed: Callable[..., Any]) -> Defect:
    """`changed(original, *arguments)` instead of the method."""
    original = getattr(owner, name)
    return lambda: patch.object(owner, name, lambda *given, **named: changed(original, *given, **named))


def _with_limits(**changes: Any) -> Defect:
    return _around(
        SharePartitions,
        "limits",
        lambda original, self, *given, **named: original(self, *given, **named)._replace(**changes),
    )


def _says(types: dict[int, RecordState]) -> Defect:
    return lambda: patch.dict(share_partition._STATES, types)


def _counts_stand_still(original: Any, self: SharePartition, *given: Any) -> Any:
    before = {id(run): run.delivery_count for run in self.runs}
    found = original(self, *given)
    return [one._replace(delivery_count=1) if before else one for one in found]


def _release_all_of_everybody(self: SharePartition, _member_id: str, limits: Limits, _now_ms: int) -> Any:
    held = [run for run in self.runs if run.state is RecordState.ACQUIRED]
    for run in held:
        run.begin_change(RecordState.AVAILABLE)
    return self._write([share_partition._as_written(run) for run in held], limits, [])


def _all_locks_end_together(original: Any, self: SharePartition, limits: Limits, now_ms: int) -> Any:
    held = [run for run in self.runs if run.state is RecordState.ACQUIRED]
    if any(run.deadline_ms <= now_ms for run in held):
        for run in held:
            run.deadline_ms = now_ms
    return original(self, limits, now_ms)


def _told_before_it_is_written(original: Any, self: SharePartitions, *given: Any) -> Any:
    *others, then = given
    then(ErrorCode.NONE)
    return original(self, *others, lambda error: None)


def _settled_before_it_is_written(original: Any, self: SharePartitions, *given: Any) -> Any:
    delivery, write, now, then = given
    write.settle(ErrorCode.NONE, now.mono_ms)
    return original(self, delivery, write._replace(settle=lambda error, now_ms: None), now, then)


def _written_in_part(original: Any, self: SharePartitions, *given: Any) -> Any:
    delivery, write, now, then = given
    return original(self, delivery, write._replace(batches=write.batches[:1]), now, then)


def _written_without_states(original: Any, self: SharePartitions, *given: Any) -> Any:
    delivery, write, now, then = given
    return original(self, delivery, write._replace(batches=()), now, then)


def _written_with_a_start_that_runs_ahead(original: Any, self: SharePartitions, *given: Any) -> Any:
    delivery, write, now, then = given
    start = max(batch.last_offset for batch in write.batches) + 1
    return original(self, delivery, write._replace(start_offset=start), now, then)


def _read_without(**changes: Any) -> Defect:
    def has_read(original: Any, self: SharePartitions, delivery: Delivery, result: Any, now: Any) -> Any:
        return original(self, delivery, replace(result, **changes), now)

    return _around(SharePartitions, "_has_read", has_read)


def _counts_are_not_read(original: Any, self: SharePartitions, delivery: Delivery, result: Any, now: Any) -> Any:
    batches = tuple(replace(batch, delivery_count=0) for batch in result.state_batches)
    return original(self, delivery, replace(result, state_batches=batches), now)


def _snapshots_forget(original: Any, self: ShareState) -> Any:
    return original(self._replace(batches=()))


def _older_states_hold(original: Any, before: list[Batch], batch: Batch) -> Any:
    return original(before, batch._replace(delivery_count=-1)) if before else original(before, batch)


def _replay_takes_only_snapshots() -> AbstractContextManager[Any]:
    original = ShareStateReplay._take

    def take(self: ShareStateReplay, record: Any) -> None:
        if not isinstance(parse_share_key(record.key), ShareUpdateKey):
            original(self, record)

    return patch.object(ShareStateReplay, "_take", take)


def _replay_leaves_out_the_last() -> AbstractContextManager[Any]:
    original = ShareStateReplay.feed

    def feed(self: ShareStateReplay, run: bytes) -> Iterator[None]:
        return original(self, b"".join(list(iter_batches(run))[:-1]))

    return patch.object(ShareStateReplay, "feed", feed)


def _only_the_newest_snapshot_stays(self: ShareStateShard, step: Step) -> None:
    newest = max((state.snapshot_offset for state in self.states.values()), default=0)
    if newest > 0:
        step.log_starts = [(self.partition, newest)]


def _the_oldest_goes_too(original: Any, self: ShareStateShard, step: Step) -> None:
    original(self, step)
    step.log_starts = [(partition, offset + 1) for partition, offset in step.log_starts]


def _forgotten_when_cold(original: Any, self: ShareStateShard, *given: Any) -> None:
    states = self.states
    self.states = {key: state._replace(batches=()) for key, state in states.items()}
    original(self, *given)
    self.states = states


def _renewal_does_nothing(original: Any, self: SharePartition, member_id: str, batches: Any, *given: Any) -> Any:
    ends = {run.first: run.deadline_ms for run in self.runs}
    found = original(self, member_id, batches, *given)
    for run in self.runs:
        run.deadline_ms = min(run.deadline_ms, ends.get(run.first, run.deadline_ms))
    return found


def _renewal_accepts(original: Any, self: SharePartition, member_id: str, batches: Any, *given: Any) -> Any:
    said = [one._replace(types=[GAP if type_ == RENEW else type_ for type_ in one.types]) for one in batches]
    return original(self, member_id, said, *given)


def _first_type_for_all(original: Any, batch: Any, start_offset: int) -> Any:
    return original(batch._replace(types=batch.types[:1]), start_offset)


def _halves_are_of_another(original: Any, self: Run, last: int) -> Run:
    rest: Run = original(self, last)
    rest.member_id = "another"
    return rest


def _halves_were_never_delivered(original: Any, self: Run, last: int) -> Run:
    rest: Run = original(self, last)
    rest.delivery_count = 0
    return rest


def _all_partitions_are_one() -> AbstractContextManager[Any]:
    original = SharePartitions.find

    def find(self: SharePartitions, group_id: str, partition: Any, now: Any) -> Delivery:
        first = partition.topic.partitions[0]
        found = original(self, group_id, first, now)
        found.partition = partition
        return found

    return patch.object(SharePartitions, "find", find)


DEFECTS: dict[str, Defect] = {
    # Who holds what
    "records of which the state is being written are given away": _replaced(
        Run, "is_acquirable", property(lambda run: run.state is RecordState.AVAILABLE or run.is_in_transition)
    ),
    "held records are given away": _replaced(
        Run, "is_acquirable", property(lambda run: not run.state.is_final and not run.is_in_transition)
    ),
    "the owner is not asked for": _replaced(SharePartition, "_require_owner", staticmethod(lambda *_, **__: None)),
    "locks end at once": _with_limits(lock_ms=1),
    "locks never end": _replaced(SharePartition, "next_deadline", lambda _self: None),
    "all locks end with the first": _around(SharePartition, "release_expired", _all_locks_end_together),
    "who leaves takes the records of all along": _replaced(SharePartition, "release_all", _release_all_of_everybody),
    "who leaves gives nothing back": _replaced(SharePartitions, "release", lambda *_: None),
    "a session outlives its connection": _replaced(ShareSessions, "closed", lambda *_: (None, None)),
    "a renewal does nothing": _around(SharePartition, "acknowledge", _renewal_does_nothing),
    "a renewal ends the record": _around(SharePartition, "acknowledge", _renewal_accepts),
    "the rest of a range is another's": _around(Run, "cut", _halves_are_of_another),
    "more records are in flight than is allowed": _with_limits(max_in_flight=1_000),
    # What becomes of records
    "accepted records come again": _says({share_partition.ACCEPT: RecordState.AVAILABLE}),
    "rejected records come again": _says({share_partition.REJECT: RecordState.AVAILABLE}),
    "released records are done with": _says({RELEASE: RecordState.ARCHIVED}),
    "the first type counts for a whole range": _around(share_partition, "_ranges", _first_type_for_all),
    "released records are passed over": _replaced(
        Window, "next_offset", property(lambda self: self.end_offset + (1 if self.batches else 0))
    ),
    "nobody is told of locks that have ended": _replaced(FetchPurgatory, "release", lambda *_: None),
    # Counts
    "records are delivered without end": _replaced(
        SharePartition, "_state_after", staticmethod(lambda _run, state, _limits: state)
    ),
    "records are given up one delivery too early": _with_limits(delivery_count_limit=2),
    "every delivery is the first": _around(SharePartition, "acquire", _counts_stand_still),
    "the rest of a range was never delivered": _around(Run, "cut", _halves_were_never_delivered),
    "counts are not read": _around(SharePartitions, "_has_read", _counts_are_not_read),
    # What is kept
    "members are told before it is written": _around(SharePartitions, "_write", _told_before_it_is_written),
    "records go on before it is written": _around(SharePartitions, "_write", _settled_before_it_is_written),
    "only the first range is written": _around(SharePartitions, "_write", _written_in_part),
    "states are not written": _around(SharePartitions, "_write", _written_without_states),
    "the start is written too high": _around(SharePartitions, "_write", _written_with_a_start_that_runs_ahead),
    "states are not read": _read_without(state_batches=()),
    "the start is not read": _read_without(start_offset=0, state_batches=()),
    "snapshots leave states out": _around(ShareState, "snapshot", _snapshots_forget),
    "older states hold": _around(share_state, "_over", _older_states_hold),
    "updates are not read back": _replay_takes_only_snapshots,
    "the last record is not read back": _replay_leaves_out_the_last,
    "all snapshots but the newest are removed": _replaced(ShareStateShard, "prune", _only_the_newest_snapshot_stays),
    "the oldest snapshot is removed, too": _around(ShareStateShard, "prune", _the_oldest_goes_too),
    "old snapshots are written again without states": _around(ShareStateShard, "snapshot_cold", _forgotten_when_cold),
    # What is sent
    "records are sent in part": _around(
        ReadRun, "batches_between", lambda original, self, first, last: original(self, first, first)
    ),
    "more is given than is asked for": _with_limits(is_exact=False),
    "partitions are taken for one another": _all_partitions_are_one,
}
