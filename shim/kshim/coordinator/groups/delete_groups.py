"""DeleteGroups: forget empty groups and their offsets.

Source: Kafka's GroupCoordinatorService.deleteGroups and GroupCoordinatorShard.deleteGroups.
"""

from __future__ import annotations

from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.events import Cause
from kshim.coordinator.groups.shard import Shard
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
    waiting = set(doomed)
    for shard, group_ids in doomed.values():
        _delete(shard, group_ids, results, waiting, context.now, ticket, step)


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
