"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: where share groups are, for administrators.

The share coordinator knows it; the group knows for which partitions it does. Source: Kafka's
GroupCoordinatorService.describeShareGroupOffsets, alterShareGroupOffsets, deleteShareGroupOffsets; answers and records are
those of a live 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.kinds import Pair
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.initialization import initialize_request
from kshim.coordinator.groups.share.plan import with_initialized, with_initializing
from kshim.coordinator.groups.share.updates import (
    PartitionStates,
    StatePartitions,
    TopicState,
    build_share_update,
)
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import SHARE_STATE_TOPIC, Errand, Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages import alter_share_group_offsets as altering
from kshim_protocol.messages import delete_share_group_offsets as deleting
from kshim_protocol.messages import describe_share_group_offsets as describing
from kshim_protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
)
from kshim_protocol.messages.delete_share_group_state import PartitionData as PartitionToDelete
from kshim_protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
)
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionData as PartitionToRead,
)
from kshim_protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)
from kshim_protocol.schema import ZERO_UUID

_NOT_HERE = "This server does not host this topic-partition."
_NOTHING_TO_DELETE = "There is no offset information to delete."
_NOT_KNOWN = -1

EndOffset = Callable[[str, int], int | None]
"""The high watermark of a partition; None where there is none."""


# Where a group is


def describe_share_group_offsets(
    find_shard: FindShard[Shard],
    end_offset: EndOffset,
    request: describing.DescribeShareGroupOffsetsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Start offsets and lags by group, for all partitions that have state where no topics are named.

    A group that does not exist, or is of another kind, has none, which is no error.
    """
    results: dict[int, describing.DescribeShareGroupOffsetsResponseGroup] = {}
    waiting = set(range(len(request.groups)))

    def is_known(place: int, group: describing.DescribeShareGroupOffsetsResponseGroup, step: Step) -> None:
        results[place] = group
        waiting.discard(place)
        if not waiting:
            groups = tuple(results[place] for place in range(len(request.groups)))
            step.reply(ticket, describing.DescribeShareGroupOffsetsResponse(groups=groups))

    if not waiting:
        step.reply(ticket, describing.DescribeShareGroupOffsetsResponse(groups=()))
    for place, asked in enumerate(request.groups):
        try:
            shard = find_shard(asked.group_id)
            shard.require_loaded()
            group = shard.groups.get(asked.group_id)
        except KafkaError as error:
            refused = describing.DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, topics=(), error_code=error.code, error_message=error.message
            )
            is_known(place, refused, step)
            continue
        share_group = group if isinstance(group, ShareGroup) else None
        _describe(shard, share_group, asked, end_offset, context.now, step, partial(is_known, place))


def _describe(
    shard: Shard,
    group: ShareGroup | None,
    asked: describing.DescribeShareGroupOffsetsRequestGroup,
    end_offset: EndOffset,
    now: Now,
    step: Step,
    is_known: Callable[[describing.DescribeShareGroupOffsetsResponseGroup, Step], None],
) -> None:
    initialized = {} if group is None else group.states.initialized
    if asked.topics is None:
        wanted = {topic.name: tuple(sorted(topic.partitions)) for topic in initialized.values()}
    else:
        wanted = {topic.topic_name: topic.partitions for topic in asked.topics}
    known: dict[TopicPartition, PartitionResult] = {}

    def answer(step: Step) -> None:
        topics = tuple(
            describing.DescribeShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=shard.topics.topic_id(name) or ZERO_UUID,
                partitions=tuple(_described(shard, name, index, known, end_offset) for index in indexes),
            )
            for name, indexes in wanted.items()
        )
        found = describing.DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, topics=topics, error_code=ErrorCode.NONE
        )
        is_known(found, step)

    places = [
        (topic_id, index)
        for name, indexes in wanted.items()
        if (topic_id := shard.topics.topic_id(name)) is not None and topic_id in initialized
        for index in indexes
        if index in initialized[topic_id].partitions
    ]
    if not places:
        answer(step)
        return
    request = ReadShareGroupStateSummaryRequest(
        group_id=asked.group_id,
        topics=tuple(
            ReadStateSummaryData(
                topic_id=topic_id,
                partitions=tuple(PartitionToRead(partition=index, leader_epoch=0) for index in indexes),
            )
            for topic_id, indexes in by_topic(places).items()
        ),
    )

    def settle(response: ReadShareGroupStateSummaryResponse, now: Now) -> Step | None:
        for topic in response.results:
            for one in topic.partitions:
                known[topic.topic_id, one.partition] = one
        step = shard.new_step()
        answer(step)
        return step

    step.ask(Errand(SHARE_STATE_TOPIC, request, now, settle))


def _described(
    shard: Shard, name: str, index: int, known: dict[TopicPartition, PartitionResult], end_offset: EndOffset
) -> describing.DescribeShareGroupOffsetsResponsePartition:
    """The lag counts what is done behind the start as done."""
    found = known.get((shard.topics.topic_id(name) or ZERO_UUID, index))
    if found is None or found.error_code != ErrorCode.NONE:
        return describing.DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=_NOT_KNOWN,
            leader_epoch=0,
            lag=_NOT_KNOWN,
            error_code=ErrorCode.NONE if found is None else found.error_code,
            error_message=None if found is None else found.error_message,
        )
    end, done = end_offset(name, index), found.delivery_complete_count
    is_known = end is not None and found.start_offset != _NOT_KNOWN and done != _NOT_KNOWN
    return describing.DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=found.start_offset,
        leader_epoch=found.leader_epoch,
        lag=_int64(end - found.start_offset - done) if is_known and end is not None else _NOT_KNOWN,
        error_code=ErrorCode.NONE,
    )


def _int64(number: int) -> int:
    """As Java computes: a start offset may be any number."""
    return (number + 2**63) % 2**64 - 2**63


# Elsewhere from now on


def alter_share_group_offsets(
    shard: Shard,
    request: altering.AlterShareGroupOffsetsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Begin the state of partitions anew; a group that does not exist is made.

    Errors: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another kind),
    NON_EMPTY_GROUP; partitions: UNKNOWN_TOPIC_OR_PARTITION.
    """
    try:
        _alter(shard, request, context, ticket, step)
    except KafkaError as error:
        step.reply(ticket, request.error_response(error.code, context.api_version, error.message))


def _alter(
    shard: Shard,
    request: altering.AlterShareGroupOffsetsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    group_id, now = request.group_id, context.now
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    shard.require_loaded()
    group = shard.share_group(group_id) if group_id in shard.groups else ShareGroup(group_id, shard.partition)
    _require_empty(group)
    wanted, starts = _starts(shard, request)
    if not wanted:
        step.reply(ticket, _altered(shard, request, {}))
        return
    places = frozenset(starts)

    def begun(step: Step) -> None:
        if not places:
            step.reply(ticket, _altered(shard, request, {}))
            return
        shard.share_group(group_id).being_initialized |= places
        step.ask(Errand(SHARE_STATE_TOPIC, initialize_request(group, starts), now, settle))

    def settle(response: InitializeShareGroupStateResponse, now: Now) -> Step | None:
        step = shard.new_step()
        errors = {
            (topic.topic_id, one.partition): (ErrorCode(one.error_code), one.error_message)
            for topic in response.results
            for one in topic.partitions
        }

        altered = shard.groups.get(group_id)
        if shard.homes.get(group_id) is not shard or not isinstance(altered, ShareGroup):
            step.reply(ticket, _altered(shard, request, errors))
            return step

        def written(step: Step) -> None:
            altered.ends_initializing(places)
            step.reply(ticket, _altered(shard, request, errors))

        def not_written(error: ErrorCode, step: Step) -> None:
            altered.ends_initializing(places)
            failed(error, step)

        made = frozenset(place for place in places if errors.get(place, (ErrorCode.NONE,))[0] is ErrorCode.NONE)
        states = with_initialized(altered.states, made, places - made)
        put_states(shard, group_id, states, now, step, written=written, failed=not_written)
        return step

    def failed(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, request.error_response(append_error(error), context.api_version))

    states = with_initializing(group.states, wanted)
    put_states(shard, group_id, states, now, step, written=begun, failed=failed)


def _starts(
    shard: Shard, request: altering.AlterShareGroupOffsetsRequest
) -> tuple[dict[bytes, TopicState], dict[TopicPartition, int]]:
    """The topics that exist, also those of which none of the partitions does, and where those that exist are to start."""
    wanted: dict[bytes, TopicState] = {}
    starts: dict[TopicPartition, int] = {}
    for topic in request.topics:
        topic_id = shard.topics.topic_id(topic.topic_name)
        if topic_id is None:
            continue
        count = shard.topics.partition_count(topic.topic_name) or 0
        found = {one.partition_index: one.start_offset for one in topic.partitions if 0 <= one.partition_index < count}
        starts |= {(topic_id, index): start for index, start in found.items()}
        wanted[topic_id] = TopicState(topic.topic_name, frozenset(found))
    return wanted, starts


def _altered(
    shard: Shard,
    request: altering.AlterShareGroupOffsetsRequest,
    errors: dict[TopicPartition, tuple[ErrorCode, str | None]],
) -> altering.AlterShareGroupOffsetsResponse:
    rows = []
    for topic in request.topics:
        topic_id = shard.topics.topic_id(topic.topic_name) or ZERO_UUID
        partitions = []
        for one in topic.partitions:
            error, message = errors.get(
                (topic_id, one.partition_index), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
            )
            partitions.append(
                altering.AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index, error_code=error, error_message=message
                )
            )
        rows.append(
            altering.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, topic_id=topic_id, partitions=tuple(partitions)
            )
        )
    return altering.AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=tuple(rows))


# Nowhere any more


def delete_share_group_offsets(
    shard: Shard,
    request: deleting.DeleteShareGroupOffsetsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    """Forget topics of a group that has no members.

    Errors: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; topics:
    UNKNOWN_TOPIC_OR_PARTITION, also without state.
    """
    try:
        _delete(shard, request, context, ticket, step)
    except KafkaError as error:
        step.reply(ticket, request.error_response(error.code, context.api_version, error.message))


def _delete(
    shard: Shard,
    request: deleting.DeleteShareGroupOffsetsRequest,
    context: RequestContext,
    ticket: Ticket,
    step: Step,
) -> None:
    group_id = request.group_id
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    shard.require_loaded()
    group = shard.share_group(group_id)
    _require_empty(group)
    if not group.has_states_record:  # as in Kafka nothing is said of the topics then, whatever they are
        step.reply(ticket, deleting.DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=()))
        return
    ids = {topic.topic_name: shard.topics.topic_id(topic.topic_name) for topic in request.topics}
    known = {*group.states.initialized, *group.states.deleting}
    doomed = [topic_id for topic_id in ids.values() if topic_id in known and topic_id is not None]

    def answer(error: ErrorCode, step: Step) -> None:
        step.reply(ticket, _deleted(request, ids, doomed, append_error(error)))

    if doomed:
        delete_states(shard, group, doomed, context.now, step, then=answer)
    else:
        answer(ErrorCode.NONE, step)


def _deleted(
    request: deleting.DeleteShareGroupOffsetsRequest,
    ids: dict[str, bytes | None],
    doomed: list[bytes],
    error: ErrorCode,
) -> deleting.DeleteShareGroupOffsetsResponse:
    rows = []
    for topic in request.topics:
        topic_id = ids[topic.topic_name]
        code, message = error, None
        if topic_id is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE
        elif topic_id not in doomed:
            topic_id, code, message = None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING_TO_DELETE
        rows.append(
            deleting.DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, topic_id=topic_id or ZERO_UUID, error_code=code, error_message=message
            )
        )
    return deleting.DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=tuple(rows))


def delete_states(
    shard: Shard,
    group: ShareGroup,
    topic_ids: Iterable[bytes],
    now: Now,
    step: Step,
    *,
    then: Callable[[ErrorCode, Step], None],
    group_ends: bool = False,
) -> None:
    """Have the states of topics forgotten: the group says that it goes, the share coordinator does it, and the group says so.

    The last is left out where the group itself ends next; only then is state forgotten that is still being made.
    """
    group_id, doomed = group.group_id, frozenset(topic_ids)
    before = group.states
    begun_or_made = [*before.initialized.items(), *(before.initializing.items() if group_ends else ())]
    names = {topic_id: topic.name for topic_id, topic in begun_or_made} | dict(before.deleting)
    places = {
        (topic_id, index) for topic_id, topic in begun_or_made if topic_id in doomed for index in topic.partitions
    }
    for topic_id in (
        doomed & before.deleting.keys()
    ):  # an attempt failed: which partitions had state is not known any more
        count = shard.topics.partition_count(names[topic_id]) or 0
        places.update((topic_id, index) for index in range(count))
    left = StatePartitions(
        {} if group_ends else before.initializing,
        {topic_id: topic for topic_id, topic in before.initialized.items() if topic_id not in doomed},
        {**before.deleting, **{topic_id: names[topic_id] for topic_id in doomed}},
    )

    def begun(step: Step) -> None:
        request = DeleteShareGroupStateRequest(
            group_id=group_id,
            topics=tuple(
                DeleteStateData(
                    topic_id=topic_id, partitions=tuple(PartitionToDelete(partition=index) for index in indexes)
                )
                for topic_id, indexes in by_topic(places).items()
            ),
        )
        step.ask(Errand(SHARE_STATE_TOPIC, request, now, settle))

    def settle(response: DeleteShareGroupStateResponse, now: Now) -> Step | None:
        step = shard.new_step()
        errors = [
            ErrorCode(one.error_code)
            for topic in response.results
            for one in topic.partitions
            if one.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]
        current = shard.groups.get(group_id)
        if errors or group_ends or shard.homes.get(group_id) is not shard or not isinstance(current, ShareGroup):
            then(errors[0] if errors else ErrorCode.NONE, step)
            return step
        after = current.states._replace(
            deleting={topic_id: name for topic_id, name in current.states.deleting.items() if topic_id not in doomed}
        )
        put_states(shard, group_id, after, now, step, written=lambda step: then(ErrorCode.NONE, step), failed=then)
        return step

    put_states(shard, group_id, left, now, step, written=begun, failed=then)


def _require_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def put_states(
    shard: Shard,
    group_id: str,
    states: StatePartitions,
    now: Now,
    step: Step,
    *,
    written: Callable[[Step], None],
    failed: Callable[[ErrorCode, Step], None],
) -> None:
    """Have it written for which partitions a group has state."""
    update = PartitionStates(states)

    def applied(_base_offset: int, step: Step) -> None:
        shard.apply_share_update(group_id, update)
        written(step)

    pairs: list[Pair] = [build_share_update(group_id, update)]
    shard.append(step, pairs, now, written=applied, failed=failed)
