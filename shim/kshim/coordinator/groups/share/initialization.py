"""Share state for the partitions of a group: made by the share coordinator when the group first needs them.

A partition is assigned to nobody before its state is there. Source: Kafka's GroupCoordinatorService.persisterInitialize and
GroupMetadataManager.initializeShareGroupState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.updates import by_topic
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.plan import with_initialized, without_topics
from kshim.coordinator.groups.share.updates import PartitionStates, StatePartitions, build_share_update
from kshim.coordinator.step import SHARE_STATE_TOPIC, Errand, Now, Step
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    PartitionData,
)


def initialize(shard: Shard, group: ShareGroup, starts: Mapping[TopicPartition, int], now: Now, step: Step) -> None:
    """Ask the share coordinator for the state of partitions; what it says is another input. `starts`: their start offsets."""
    asked = frozenset(starts)
    group.being_initialized |= asked
    request = initialize_request(group, starts)

    def settle(response: InitializeShareGroupStateResponse, now: Now) -> Step | None:
        if shard.homes.get(group.group_id) is not shard or shard.groups[group.group_id] is not group:
            return None  # the shard was given up, or the group is gone
        step = shard.new_step()
        _initialized(shard, group, asked, response, now, step)
        return step

    step.ask(Errand(SHARE_STATE_TOPIC, request, now, settle))


def initialize_request(group: ShareGroup, starts: Mapping[TopicPartition, int]) -> InitializeShareGroupStateRequest:
    """InitializeShareGroupState for partitions, with the offsets at which they start."""
    return InitializeShareGroupStateRequest(
        group_id=group.group_id,
        topics=tuple(
            InitializeStateData(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionData(partition=index, state_epoch=group.group_epoch, start_offset=starts[topic_id, index])
                    for index in indexes
                ),
            )
            for topic_id, indexes in by_topic(starts).items()
        ),
    )


def _initialized(
    shard: Shard,
    group: ShareGroup,
    asked: frozenset[TopicPartition],
    response: InitializeShareGroupStateResponse,
    now: Now,
    step: Step,
) -> None:
    """Partitions whose state is there can be assigned; what failed is tried again by a later heartbeat."""
    made = frozenset(
        (topic.topic_id, one.partition)
        for topic in response.results
        for one in topic.partitions
        if one.error_code == ErrorCode.NONE
    )

    states = with_initialized(group.states, made & asked, asked - made)
    if states == group.states:
        group.ends_initializing(asked)
    else:
        _put_states(shard, group, states, now, step, settled=partial(group.ends_initializing, asked))


def forget_deleted_topics(shard: Shard, now: Now, begin: Callable[[], Step]) -> Iterator[Step]:
    """Topics were deleted: share groups forget them, each in a Step made by `begin`. The share coordinator does so by itself."""
    for group in [group for group in shard.groups.values() if isinstance(group, ShareGroup)]:
        step = begin()
        _forget(shard, group, now, step)
        yield step


def _forget(shard: Shard, group: ShareGroup, now: Now, step: Step) -> None:
    found = (*group.states.initializing, *group.states.initialized, *group.states.deleting)
    gone = frozenset(topic_id for topic_id in found if shard.topics.topic_name(topic_id) is None)
    if gone:
        _put_states(shard, group, without_topics(group.states, gone), now, step, settled=lambda: None)


def _put_states(
    shard: Shard, group: ShareGroup, states: StatePartitions, now: Now, step: Step, *, settled: Callable[[], None]
) -> None:
    update = PartitionStates(states)

    def written(_base_offset: int, step: Step) -> None:
        shard.apply_share_update(group.group_id, update)
        settled()

    def failed(error: ErrorCode, step: Step) -> None:
        settled()

    shard.append(step, [build_share_update(group.group_id, update)], now, written=written, failed=failed)
