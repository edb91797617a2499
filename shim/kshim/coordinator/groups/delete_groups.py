"""DeleteGroups: forget empty groups and their offsets.

Source: Kafka's GroupCoordinatorService.deleteGroups and GroupCoordinatorShard.deleteGroups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.events import Cause
from kshim.coordinator.groups.shard import Shard
from kshim.coordinator.groups.share.group import ShareGroup
from kshim.coordinator.groups.share.share_offsets import delete_states
from kshim.coordinator.groups.share.updates import StatePartitions
from kshim.coordinator.groups.tombstones import Tombstones, offsets_of_group
from kshim.coordinator.runtime import FindShard
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(
    find_shard: FindShard[Shard], request: DeleteGroupsRequest, context: RequestContext, ticket: Ticket, step: Step
) -> None:
    """Delete each group that is Empty, with one batch a shard; answer when the last batch's fate is known.

    Each group has its own error: COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or why its batch
    could not be written. A group named twice is answered once.
    """
    results: dict[str, ErrorCode] = dict.fromkeys(request.groups_names, ErrorCode.NONE)
    doomed: dict[int, tuple[Shard, list[str]]] = {}
    for group_id in results:
        try:
            shard = find_shard(group_id)
            _check(shard, group_id)
        except KafkaError as error:
            results[group_id] = error.code
        else:
            doomed.setdefault(shard.partition, (shard, []))[1].append(group_id)
    if not doomed:
        step.reply(ticket, _response(results))

    def go_on(step: Step) -> None:
        _leave_out_changed(doomed, results)
        if not doomed and results:
            step.reply(ticket, _response(results))
        waiting = set(doomed)
        for shard, group_ids in doomed.values():
            _delete(shard, group_ids, results, waiting, context.now, ticket, step)

    if doomed:
        _delete_share_states(doomed, results, context.now, step, go_on)


def _delete_share_states(
    doomed: dict[int, tuple[Shard, list[str]]],
    results: dict[str, ErrorCode],
    now: Now,
    step: Step,
    then: Callable[[Step], None],
) -> None:
    """What share groups made of records is forgotten before they are."""
    found = [
        (shard, group)
        for shard, group_ids in doomed.values()
        for group_id in group_ids
        if isinstance(group := shard.groups[group_id], ShareGroup) and group.states != StatePartitions()
    ]
    left = len(found)
    if not found:
        then(step)

    def is_gone(group_id: str, error: ErrorCode, step: Step) -> None:
        nonlocal left
        left -= 1
        results[group_id] = append_error(error)
        if not left:
            then(step)

    for shard, group in found:
        topic_ids = {*group.states.initializing, *group.states.initialized, *group.states.deleting}
        delete_states(shard, group, topic_ids, now, step, then=partial(is_gone, group.group_id), group_ends=True)


def _leave_out_changed(doomed: dict[int, tuple[Shard, list[str]]], results: dict[str, ErrorCode]) -> None:
    """Groups that have got members while the state of their partitions was deleted, or could not lose it, stay."""
    for shard, group_ids in list(doomed.values()):
        for group_id in list(group_ids):
            group = shard.groups.get(group_id)
            if results[group_id] is ErrorCode.NONE:
                if group is not None and group.is_empty:
                    continue
                results[group_id] = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NON_EMPTY_GROUP
            group_ids.remove(group_id)
        if not group_ids:
            del doomed[shard.partition]


def _check(shard: Shard, group_id: str) -> None:
    shard.require_loaded()
    group = shard.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def _delete(
    shard: Shard,
    group_ids: list[str],
    results: dict[str, ErrorCode],
    waiting: set[int],
    now: Now,
    ticket: Ticket,
    step: Step,
) -> None:
    """Write the tombstones of one shard's groups. The last of `waiting` shards answers."""
    tombstones = Tombstones(shard, Cause.GROUP_DELETED)
    for group_id in group_ids:
        tombstones.add_offsets(group_id, offsets_of_group(shard, group_id))
        tombstones.add_group(group_id)

    def finished(step: Step) -> None:
        waiting.remove(shard.partition)
        if not waiting:
            step.reply(ticket, _response(results))

    def written(_base_offset: int, step: Step) -> None:
        tombstones.apply(now, step)
        finished(step)

    def failed(error: ErrorCode, step: Step) -> None:
        results.update(dict.fromkeys(group_ids, append_error(error)))
        finished(step)

    shard.append(step, tombstones.pairs, now, written=written, failed=failed)


def _response(results: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results.items())
    )
