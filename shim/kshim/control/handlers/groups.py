"""Groups over HTTP: look, wait, and do to them what tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from msgspec import UNSET

from kshim.control.context import ControlContext
from kshim.control.documents import (
    ExpelInput,
    ExpireInput,
    Explanation,
    FenceInput,
    GroupDocument,
    GroupId,
    GroupPage,
    GroupSummary,
    MemberDocument,
    MemberId,
    MoveInput,
    NewestQuery,
    OffsetDocument,
    PageQuery,
    RebalanceDocument,
    RebalanceInput,
    RebalanceList,
    WaitQuery,
)
from kshim.control.handlers.nodes import moved
from kshim.control.http import ProblemError
from kshim.control.routing import Table
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.harness.actions import expel, expire, fence, trigger_rebalance
from kshim.harness.groups import GroupView, MemberView, committed, group_ids, group_view, lag
from kshim.harness.hints import hints, hints_of_commit
from kshim.harness.rebalances import Rebalance, explain, name_of, rebalances_of, timeline_of
from kshim.harness.waits import is_settled
from kshim.wording import counted

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster

TABLE = Table()
LISTED_MAX = 1_000
_TIMELINE_CHARACTERS = 8_000


@TABLE.get("/v1/groups")
def list_groups(context: ControlContext, query: PageQuery) -> GroupPage:
    """List the groups, by id."""
    later = [group_id for group_id in group_ids(context.cluster) if group_id > query.after]
    shown = later[: query.limit]
    return GroupPage(
        groups=[_summary(group_view(context.cluster, group_id)) for group_id in shown],
        next=shown[-1] if len(later) > len(shown) else None,
    )


@TABLE.get("/v1/groups/{group}", problems=(404,))
def describe_group(context: ControlContext, group: GroupId) -> GroupDocument:
    """Look at one group: its members with their partitions, its committed offsets and lag."""
    view = group_view(context.cluster, group)
    if view.state == "Dead":
        raise ProblemError(404, f"there is no group {group}")
    return _document(context, view)


@TABLE.get("/v1/groups/{group}/rebalances")
def list_rebalances(context: ControlContext, group: GroupId, query: NewestQuery) -> RebalanceList:
    """List the rebalances of a group: why each began, who was behind it, how long it took."""
    found = rebalances_of(context.cluster, group)
    return RebalanceList(
        rebalances=[_rebalance(each) for each in found[-query.limit :]], omitted=max(len(found) - query.limit, 0)
    )


@TABLE.get("/v1/groups/{group}/explain")
def explain_group(context: ControlContext, group: GroupId) -> Explanation:
    """Say in words what happened to a group."""
    return Explanation(explanation=explain(context.cluster, group), timeline=timeline_of(context.cluster, group))


@TABLE.get("/v1/groups/{group}/wait", problems=(422, 503, 504))
async def wait_for_group(context: ControlContext, group: GroupId, query: WaitQuery) -> GroupDocument:
    """Wait until all that the query names is true of a group, and answer with the group as it is then.

    The answer comes the moment it is true. On time-out the detail of the problem ends with the group's timeline. A group
    that does not exist yet can be waited for.
    """
    if (query.topic is UNSET) != (query.offset is UNSET):
        raise ProblemError(422, "the query: `topic` and `offset` go together")
    future = context.waits.until(_look(context, group, query))
    done = trio.Event()
    future.add_done_callback(lambda _: done.set())
    try:
        with trio.move_on_after(query.timeout):
            await done.wait()
            view = future.result()
            return _document(context, view)
    finally:
        context.waits.give_up(future, TimeoutError())
    timeline = timeline_of(context.cluster, group)[-_TIMELINE_CHARACTERS:]
    state = _state_of(group_view(context.cluster, group))
    sentences = hints(context.cluster, group, context.now())
    if query.topic is not UNSET:
        sentences = [*hints_of_commit(context.cluster, group, query.topic, query.partition), *sentences]
    raise ProblemError(504, "\n".join([f"group {group} is {state} after {query.timeout:g} s.", *sentences, timeline]))


@TABLE.post("/v1/groups/{group}/rebalance", problems=(404,))
def rebalance_group(context: ControlContext, group: GroupId, body: RebalanceInput) -> GroupDocument:
    """Begin a rebalance, as though a member had changed."""
    _carried_out(lambda: trigger_rebalance(context.cluster, group, body.reason, context.now()))
    return _document(context, group_view(context.cluster, group))


@TABLE.post("/v1/groups/{group}/expel", problems=(404,))
def expel_member(context: ControlContext, group: GroupId, body: ExpelInput) -> MemberId:
    """Remove a member, as an administrator does: its next request is answered UNKNOWN_MEMBER_ID."""
    return MemberId(
        member_id=_carried_out(lambda: expel(context.cluster, group, body.member, context.now(), body.reason))
    )


@TABLE.post("/v1/groups/{group}/expire", problems=(404, 409))
def expire_member(context: ControlContext, group: GroupId, body: ExpireInput) -> MemberId:
    """End the session of a member, as if no heartbeat had come for its session timeout. The clock stays where it is."""
    try:
        return MemberId(member_id=_carried_out(lambda: expire(context.cluster, group, body.member, context.now())))
    except RuntimeError as error:
        raise ProblemError(409, str(error)) from None


@TABLE.post("/v1/groups/{group}/fence", problems=(404,))
def fence_instance(context: ControlContext, group: GroupId, body: FenceInput) -> MemberId:
    """Give the place of a static member to another with its instance id: its next request is answered FENCED_INSTANCE_ID.

    The answer names the new member, which sends no heartbeat.
    """
    return MemberId(member_id=_carried_out(lambda: fence(context.cluster, group, body.instance_id, context.now())))


@TABLE.post("/v1/groups/{group}/coordinator", problems=(404, 409))
def move_coordinator(context: ControlContext, group: GroupId, body: MoveInput) -> GroupDocument:
    """Have another broker coordinate the group, with all others of its partition of `__consumer_offsets`."""
    cluster = context.cluster
    cluster.groups.topic()
    moved(context, OFFSETS_TOPIC, cluster.groups.coordinator.partition_for(group), body.node)
    return _document(context, group_view(cluster, group))


def _look(context: ControlContext, group_id: str, query: WaitQuery) -> Callable[[], GroupView | None]:
    def look() -> GroupView | None:
        view = group_view(context.cluster, group_id)
        return view if _is_true(context, view, query) else None

    return look


def _is_true(context: ControlContext, view: GroupView, query: WaitQuery) -> bool:
    if query.state is not UNSET and not _is_in(view, query.state):
        return False
    if query.members is not UNSET and len(view.members) != query.members:
        return False
    if query.generation is not UNSET and view.generation < query.generation:
        return False
    if query.assigned is not UNSET and not any(_is_assigned(member, query.assigned) for member in view.members):
        return False
    if query.topic is not UNSET and query.offset is not UNSET:
        offset = committed(context.cluster, view.group_id).get((query.topic, query.partition))
        return offset is not None and offset >= query.offset
    return True


def _is_in(view: GroupView, state: str) -> bool:
    if state == "Stable":
        return is_settled(view)
    return view.state in ("Empty", "Dead") if state == "Empty" else view.state == state


def _is_assigned(member: MemberView, name: str) -> bool:
    names = (member.client_id, member.instance_id, member.member_id)
    return name in names and member.is_synced and bool(member.assignment)


def _state_of(view: GroupView) -> str:
    return f"{view.state} in generation {view.generation} with {counted(len(view.members), 'member')}"


def _carried_out(do: Callable[[], str | None]) -> str:
    """Raises ProblemError: 404."""
    try:
        return do() or ""
    except LookupError as error:
        raise ProblemError(404, str(error)) from None


def _summary(view: GroupView) -> GroupSummary:
    return GroupSummary(
        group_id=view.group_id,
        state=view.state,
        generation=view.generation,
        protocol=view.protocol,
        members=len(view.members),
    )


def _document(context: ControlContext, view: GroupView) -> GroupDocument:
    cluster = context.cluster
    offsets, behind = committed(cluster, view.group_id), lag(cluster, view.group_id)
    places = sorted({*offsets, *behind})
    return GroupDocument(
        group_id=view.group_id,
        state=view.state,
        generation=view.generation,
        protocol=view.protocol,
        is_synced=view.is_synced,
        coordinator=_coordinator_of(cluster, view.group_id),
        members=[_member(member) for member in view.members[:LISTED_MAX]],
        members_omitted=max(len(view.members) - LISTED_MAX, 0),
        offsets=[
            OffsetDocument(topic=place[0], partition=place[1], committed=offsets.get(place), lag=behind.get(place))
            for place in places[:LISTED_MAX]
        ],
        offsets_omitted=max(len(places) - LISTED_MAX, 0),
    )


def _coordinator_of(cluster: Cluster, group_id: str) -> int:
    """The broker that coordinates a group, -1 as long as there is no partition for it: to look at it makes none."""
    made = cluster.groups.made
    found = None if made is None else cluster.topics.partition(OFFSETS_TOPIC, made.partition_for(group_id))
    return -1 if found is None else found.leader.leader_id


def _member(member: MemberView) -> MemberDocument:
    assignment: dict[str, list[int]] = {}
    for topic, partition in member.assignment:
        assignment.setdefault(topic, []).append(partition)
    return MemberDocument(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        instance_id=member.instance_id,
        assignment=assignment,
        is_leader=member.is_leader,
        is_synced=member.is_synced,
        session_timeout_ms=member.session_timeout_ms,
    )


def _rebalance(found: Rebalance) -> RebalanceDocument:
    return RebalanceDocument(
        epoch=found.epoch,
        why=found.why,
        text=found.text,
        who=None if found.who is None else name_of(found.who),
        from_generation=found.from_generation,
        to_generation=found.to_generation,
        started_ms=found.started_wall_ms,
        join_ms=found.join_ms,
        sync_ms=found.sync_ms,
        compute_ms=found.compute_ms,
        revoke_ms=found.revoke_ms,
        assign_ms=found.assign_ms,
        duration_ms=found.duration_ms,
        outcome=found.outcome,
        members=len(found.joined),
        kicked=[name_of(member) for member in found.kicked[:LISTED_MAX]],
        explanation=found.explain(),
    )
