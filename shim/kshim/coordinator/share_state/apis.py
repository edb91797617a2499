"""What the share coordinator answers: begin to keep, read, change, sum up and forget the states of share partitions.

Every partition of a request has its own result, in the order of the request. Source: Kafka's ShareCoordinatorService and
ShareCoordinatorShard; texts and records are those of a live 4.4.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.catalog import TopicCatalog
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.share_state.shard import SharePartitionKey, ShareRecord, ShareStateShard
from kshim.coordinator.share_state.share_state import (
    NO_COUNT,
    NO_START_OFFSET,
    Batch,
    ShareState,
    combined,
    records_of,
)
from kshim.coordinator.step import RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.internal.share_state import ShareUpdateValue
from kshim_protocol.messages import delete_share_group_state as delete_messages
from kshim_protocol.messages import initialize_share_group_state as initialize_messages
from kshim_protocol.messages import read_share_group_state as read_messages
from kshim_protocol.messages import read_share_group_state_summary as summary_messages
from kshim_protocol.messages import write_share_group_state as write_messages

_FIRST_LEADER_EPOCH = 0

Results = list[tuple[bytes, tuple[Any, ...]]]
"""The results of a request, by the id of the topic."""


class Wanted(NamedTuple):
    """What one partition of a request comes to: a record to be written first, and the result. `record`: None for none."""

    result: Any
    record: tuple[ShareRecord] | None = None


class _Answering:
    """One request: its partitions one after the other, each when the record of the one before is written."""

    def __init__(
        self,
        find_shard: FindShard[ShareStateShard],
        request: Any,
        context: RequestContext,
        work: Callable[[ShareStateShard, SharePartitionKey, Any], Wanted],
        refused: Callable[[int, ErrorCode, str | None], Any],
        finished: Callable[[Results, Step], None],
    ) -> None:
        self._find_shard = find_shard
        self._context = context
        self._group_id: str = request.group_id
        self._left = [(topic.topic_id, one) for topic in request.topics for one in topic.partitions]
        self._left.reverse()
        self._results: dict[bytes, list[Any]] = {topic.topic_id: [] for topic in request.topics}
        self._work = work
        self._refused = refused
        self._finished = finished

    def go_on(self, step: Step) -> None:
        """Take partitions until one needs a record."""
        while self._left:
            topic_id, one = self._left.pop()
            key = SharePartitionKey(self._group_id, topic_id, one.partition)
            try:
                shard = self._find_shard(key_text(key))
                shard.require_loaded()
                wanted = self._work(shard, key, one)
            except KafkaError as error:
                self._results[topic_id].append(self._refused(one.partition, error.code, error.message))
                continue
            if wanted.record is None:
                self._results[topic_id].append(wanted.result)
                continue
            self._write(shard, key, wanted, step)
            return
        if self._group_id:
            self._finished([(topic_id, tuple(found)) for topic_id, found in self._results.items()], step)
        else:
            self._finished([], step)

    def _write(self, shard: ShareStateShard, key: SharePartitionKey, wanted: Wanted, step: Step) -> None:
        assert wanted.record is not None

        def written(step: Step) -> None:
            self._results[key.topic_id].append(wanted.result)
            self.go_on(step)

        def failed(error: ErrorCode, step: Step) -> None:
            self._results[key.topic_id].append(self._refused(key.partition, append_error(error), None))
            self.go_on(step)

        shard.append(step, key, wanted.record[0], self._context.now, written=written, failed=failed)


def key_text(key: SharePartitionKey) -> str:
    """What a share partition is looked up by, also by clients in FindCoordinator: `group:topic id in base64:partition`."""
    topic_id = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def _require_not_negative(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 0:
            what = name.replace("_", " ")
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The {what} cannot be a negative number.")


def _require_exists(topics: TopicCatalog, key: SharePartitionKey) -> None:
    name = topics.topic_name(key.topic_id)
    if name is None or key.partition >= (topics.partition_count(name) or 0):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _require_leader_epoch(state: ShareState, leader_epoch: int) -> None:
    if leader_epoch < state.fencing_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
        )


def _require_state_epoch(state: ShareState, state_epoch: int) -> None:
    if state_epoch < state.state_epoch:
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH,
            "The coordinator rejected the request because the state epoch did not match.",
        )


def _require_initialized(shard: ShareStateShard, key: SharePartitionKey, operation: str) -> ShareState:
    state = shard.states.get(key)
    if state is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed."
        )
    return state


def initialize_share_group_state(
    find_shard: FindShard[ShareStateShard],
    topics: TopicCatalog,
    request: initialize_messages.InitializeShareGroupStateRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Begin to keep the state of partitions, or begin again: with a snapshot of a start offset and nothing else.

    Errors: INVALID_REQUEST (negative numbers), FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
    """

    def work(shard: ShareStateShard, key: SharePartitionKey, one: initialize_messages.PartitionData) -> Wanted:
        _require_not_negative(partition_id=key.partition, state_epoch=one.state_epoch)
        before = shard.states.get(key)
        if before is not None:
            _require_state_epoch(before, one.state_epoch)
        _require_exists(topics, key)
        state = ShareState(
            snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
            state_epoch=one.state_epoch,
            leader_epoch=_FIRST_LEADER_EPOCH,
            start_offset=one.start_offset,
            delivery_complete_count=NO_COUNT if one.start_offset == NO_START_OFFSET else 0,
            create_ms=context.now.wall_ms,
            write_ms=context.now.wall_ms,
        )
        result = initialize_messages.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
        return Wanted(result, (state.snapshot(),))

    def refused(partition: int, error: ErrorCode, message: str | None) -> initialize_messages.PartitionResult:
        return initialize_messages.PartitionResult(partition=partition, error_code=error, error_message=message)

    def finished(results: Results, step: Step) -> None:
        rows = (initialize_messages.InitializeStateResult(topic_id=id_, partitions=found) for id_, found in results)
        step.reply(ticket, initialize_messages.InitializeShareGroupStateResponse(results=tuple(rows)))

    _Answering(find_shard, request, context, work, refused, finished).go_on(step)


def read_share_group_state(
    find_shard: FindShard[ShareStateShard],
    topics: TopicCatalog,
    request: read_messages.ReadShareGroupStateRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """All of the states of partitions, for their leader. A newer leader epoch is written, so that older leaders are fenced.

    Errors: INVALID_REQUEST (negative numbers, no state), FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
    """

    def work(shard: ShareStateShard, key: SharePartitionKey, one: read_messages.PartitionData) -> Wanted:
        _require_not_negative(partition_id=key.partition, leader_epoch=one.leader_epoch)
        state = _require_initialized(shard, key, "Read")
        _require_leader_epoch(state, one.leader_epoch)
        _require_exists(topics, key)
        result = read_messages.PartitionResult(
            partition=key.partition,
            error_code=ErrorCode.NONE,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=tuple(read_messages.StateBatch(**batch._asdict()) for batch in state.batches),
        )
        if one.leader_epoch <= state.fencing_epoch:
            return Wanted(result)
        return Wanted(result, (_changed(shard, state, context, leader_epoch=one.leader_epoch),))

    def refused(partition: int, error: ErrorCode, message: str | None) -> read_messages.PartitionResult:
        return read_messages.PartitionResult(
            partition=partition,
            error_code=error,
            error_message=message,
            state_epoch=0,
            start_offset=0,
            state_batches=(),
        )

    def finished(results: Results, step: Step) -> None:
        rows = (read_messages.ReadStateResult(topic_id=id_, partitions=found) for id_, found in results)
        step.reply(ticket, read_messages.ReadShareGroupStateResponse(results=tuple(rows)))

    _Answering(find_shard, request, context, work, refused, finished).go_on(step)


def write_share_group_state(
    find_shard: FindShard[ShareStateShard],
    topics: TopicCatalog,
    request: write_messages.WriteShareGroupStateRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """What has changed in the states of partitions; -1 stands for what has not. A start offset never goes back.

    Errors: INVALID_REQUEST (negative numbers, no state), FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION.
    """

    def work(shard: ShareStateShard, key: SharePartitionKey, one: write_messages.PartitionData) -> Wanted:
        _require_not_negative(partition_id=key.partition, state_epoch=one.state_epoch, leader_epoch=one.leader_epoch)
        state = _require_initialized(shard, key, "Write")
        _require_leader_epoch(state, one.leader_epoch)
        _require_state_epoch(state, one.state_epoch)
        _require_exists(topics, key)
        batches = tuple(
            Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in one.state_batches
        )
        count = one.delivery_complete_count
        record = _changed(
            shard,
            state,
            context,
            leader_epoch=one.leader_epoch,
            start_offset=max(one.start_offset, state.start_offset),
            delivery_complete_count=state.delivery_complete_count if count == NO_COUNT else count,
            batches=batches,
        )
        result = write_messages.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
        return Wanted(result, (record,))

    def refused(partition: int, error: ErrorCode, message: str | None) -> write_messages.PartitionResult:
        return write_messages.PartitionResult(partition=partition, error_code=error, error_message=message)

    def finished(results: Results, step: Step) -> None:
        rows = (write_messages.WriteStateResult(topic_id=id_, partitions=found) for id_, found in results)
        step.reply(ticket, write_messages.WriteShareGroupStateResponse(results=tuple(rows)))

    _Answering(find_shard, request, context, work, refused, finished).go_on(step)


def _changed(
    shard: ShareStateShard,
    state: ShareState,
    context: RequestContext,
    *,
    leader_epoch: int,
    start_offset: int | None = None,
    delivery_complete_count: int | None = None,
    batches: Sequence[Batch] = (),
) -> ShareRecord:
    """The record of a change: an update, or a snapshot when there are enough of those since the last one."""
    start = state.start_offset if start_offset is None else start_offset
    update = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete_count=(
            state.delivery_complete_count if delivery_complete_count is None else delivery_complete_count
        ),
        state_batches=records_of(combined(batches, start)),
    )
    if state.update_count < shard.config.snapshot_update_records_per_snapshot:
        return update
    now_ms = context.now.wall_ms
    epoch = state.snapshot_epoch + 1
    return state.after(update)._replace(snapshot_epoch=epoch, create_ms=now_ms, write_ms=now_ms).snapshot()


def delete_share_group_state(
    find_shard: FindShard[ShareStateShard],
    topics: TopicCatalog,
    request: delete_messages.DeleteShareGroupStateRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Forget the states of partitions; where there is none, that is no error.

    Errors: INVALID_REQUEST (negative numbers), UNKNOWN_TOPIC_OR_PARTITION.
    """

    def work(shard: ShareStateShard, key: SharePartitionKey, _one: delete_messages.PartitionData) -> Wanted:
        _require_not_negative(partition_id=key.partition)
        _require_exists(topics, key)
        result = delete_messages.PartitionResult(partition=key.partition, error_code=ErrorCode.NONE)
        return Wanted(result, (None,) if key in shard.states else None)

    def refused(partition: int, error: ErrorCode, message: str | None) -> delete_messages.PartitionResult:
        return delete_messages.PartitionResult(partition=partition, error_code=error, error_message=message)

    def finished(results: Results, step: Step) -> None:
        rows = (delete_messages.DeleteStateResult(topic_id=id_, partitions=found) for id_, found in results)
        step.reply(ticket, delete_messages.DeleteShareGroupStateResponse(results=tuple(rows)))

    _Answering(find_shard, request, context, work, refused, finished).go_on(step)


def read_share_group_state_summary(
    find_shard: FindShard[ShareStateShard],
    topics: TopicCatalog,
    request: summary_messages.ReadShareGroupStateSummaryRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Where partitions are, without their batches; the leader epoch is not compared. No state: start offset -1.

    Errors: INVALID_REQUEST (negative numbers), UNKNOWN_TOPIC_OR_PARTITION.
    """

    def work(shard: ShareStateShard, key: SharePartitionKey, one: summary_messages.PartitionData) -> Wanted:
        _require_not_negative(partition_id=key.partition, leader_epoch=one.leader_epoch)
        _require_exists(topics, key)
        state = shard.states.get(key)
        return Wanted(
            summary_messages.PartitionResult(
                partition=key.partition,
                error_code=ErrorCode.NONE,
                state_epoch=0 if state is None else state.state_epoch,
                leader_epoch=0 if state is None else state.leader_epoch,
                start_offset=NO_START_OFFSET if state is None else state.start_offset,
                delivery_complete_count=NO_COUNT if state is None else state.delivery_complete_count,
            )
        )

    def refused(partition: int, error: ErrorCode, message: str | None) -> summary_messages.PartitionResult:
        return summary_messages.PartitionResult(
            partition=partition,
            error_code=error,
            error_message=message,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
        )

    def finished(results: Results, step: Step) -> None:
        rows = (summary_messages.ReadStateSummaryResult(topic_id=id_, partitions=found) for id_, found in results)
        step.reply(ticket, summary_messages.ReadShareGroupStateSummaryResponse(results=tuple(rows)))

    _Answering(find_shard, request, context, work, refused, finished).go_on(step)
