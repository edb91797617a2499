"""The coordinator's events in words; those that people grep for in Kafka's log are worded as there."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups import events
from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState
from kshim.coordinator.groups.events import (
    AppendFailed,
    AssignmentReceived,
    Cause,
    DeliveryFailed,
    EpochRaised,
    GroupConverted,
    GroupEvent,
    GroupLoaded,
    JoinCompleted,
    LeaderReplaced,
    MemberAdded,
    MemberIdIssued,
    MemberReconciled,
    MemberRef,
    MemberRefused,
    MemberRemoved,
    MemberReplaced,
    OffsetsRemoved,
    RebalanceCompleted,
    RecordRange,
    RecordsSkipped,
    SyncCompleted,
    TargetChange,
    TargetComputed,
    Transition,
)
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim.coordinator.step import Event, Now
from kshim.history.coordinator_lines import line_of
from kshim_protocol.errors import ErrorCode

NOW = Now(0, 0)
ANNA = MemberRef(member_id="anna-1", client_id="anna", client_host="/127.0.0.1")
STATIC = MemberRef(member_id="i-1", group_instance_id="i", client_id="ben", client_host="/10.0.0.1")


def goes_to(new: GroupState, cause: Cause = Cause.MEMBER_LEFT) -> Transition:
    return Transition(
        partition=3,
        now=NOW,
        group_id="g",
        generation_id=4,
        previous=GroupState.STABLE,
        new=new,
        cause=cause,
        detail="why not",
        member=ANNA,
        member_count=2,
    )


def removed(
    cause: Cause, *, was_pending: bool = False, state: GroupState | ConsumerGroupState = GroupState.STABLE
) -> MemberRemoved:
    return MemberRemoved(
        partition=3,
        now=NOW,
        group_id="g",
        generation_id=4,
        state=state,
        member=ANNA,
        cause=cause,
        was_pending=was_pending,
    )


def in_group(event_class: type[GroupEvent], **fields: object) -> Event:
    return event_class(partition=3, now=NOW, group_id="g", generation_id=4, **fields)


AS_IN_KAFKA = [
    (
        goes_to(GroupState.PREPARING_REBALANCE),
        "Preparing to rebalance group g in state PreparingRebalance with old generation 4 (reason: why not).",
    ),
    (goes_to(GroupState.EMPTY), "Group g with generation 4 is now empty."),
    (
        in_group(JoinCompleted, member_count=2, leader_id="anna-1", protocol_name="range", join_ms=1, waits=()),
        "Stabilized group g generation 4 with 2 members.",
    ),
    (
        in_group(AssignmentReceived, member=ANNA, member_count=2, static_member_count=1, unassigned=()),
        "Assignment received from leader anna-1 for group g for generation 4. The group has 2 members, 1 of which are "
        "static.",
    ),
    (removed(Cause.SESSION_EXPIRED), "Member anna-1 in group g has failed, removing it from the group."),
    (
        removed(Cause.SESSION_EXPIRED, state=ConsumerGroupState.STABLE),
        "[GroupId g] Member anna-1 fenced from the group because the member session expired.",
    ),
    (
        removed(Cause.MEMBER_LEFT, state=ConsumerGroupState.STABLE),
        "[GroupId g] Member anna-1 left the consumer group.",
    ),
    (
        removed(Cause.MEMBER_LEFT),
        "[Group g] Member anna-1 has left group through explicit `LeaveGroup`; client reason: not provided",
    ),
]
OTHERS = [
    in_group(MemberAdded, state=StreamsGroupState.STABLE, member=STATIC, had_id=False),
    in_group(GroupLoaded, state=ShareGroupState.STABLE, member_count=2),
    in_group(
        DeliveryFailed,
        state=ShareGroupState.STABLE,
        member=ANNA,
        reason="lock_timeout",
        ended_by="lock_timeout",
        topic_name="orders",
        topic_partition=0,
        first_offset=4,
        last_offset=7,
        record_count=4,
        times=1,
        delivery_count=2,
        held_ms=30_000,
        lock_ms=30_000,
        delivery_count_limit=5,
        ranges=(RecordRange(4, 7, 2),),
    ),
    goes_to(GroupState.DEAD, Cause.GROUP_DELETED),
    in_group(MemberIdIssued, state=GroupState.EMPTY, member=ANNA),
    in_group(MemberAdded, state=GroupState.EMPTY, member=ANNA, had_id=True),
    in_group(MemberAdded, state=GroupState.EMPTY, member=STATIC, had_id=False),
    in_group(MemberReplaced, state=GroupState.STABLE, member=STATIC, replaced_member_id="i-0"),
    in_group(LeaderReplaced, member=ANNA, previous_leader_id="ben-1"),
    in_group(RebalanceCompleted, member_count=2, join_ms=250, sync_ms=3),
    in_group(
        EpochRaised,
        previous=ConsumerGroupState.STABLE,
        previous_epoch=3,
        cause=Cause.MEMBER_JOINED,
        detail="member ben-1 joined",
        member=None,
        member_count=2,
    ),
    in_group(TargetComputed, assignor="uniform", changes=(TargetChange(ANNA, 1, 0),)),
    in_group(
        MemberReconciled,
        state=ConsumerGroupState.RECONCILING,
        member=ANNA,
        epoch=4,
        previous=MemberState.STABLE,
        new=MemberState.UNREVOKED_PARTITIONS,
        to_revoke=(("orders", 0),),
        revoked=(),
        received=(),
    ),
    in_group(
        MemberRefused,
        state=ConsumerGroupState.STABLE,
        member=ANNA,
        error=ErrorCode.FENCED_MEMBER_EPOCH,
        detail="its epoch is old",
    ),
    in_group(GroupLoaded, state=GroupState.STABLE, member_count=2),
    in_group(GroupConverted, from_kind="classic", to_kind="consumer"),
    in_group(AppendFailed, error=ErrorCode.KAFKA_STORAGE_ERROR, what="an assignment"),
    OffsetsRemoved(partition=3, now=NOW, cause=Cause.EXPIRED, group_count=1, offset_count=5),
    RecordsSkipped(partition=3, now=NOW, key_type=9, count=2),
    removed(Cause.SYNC_TIMEOUT),
    removed(Cause.SESSION_EXPIRED, was_pending=True),
]


@pytest.mark.parametrize(("event", "text"), AS_IN_KAFKA, ids=lambda value: type(value).__name__)
def test_what_is_grepped_for_is_worded_as_in_kafka(event: Event, text: str) -> None:
    line = line_of(event)
    assert line is not None
    assert (line.level, line.text) == ("INFO", text)


@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_every_other_event_has_words_that_name_what_it_is_about(event: Event) -> None:
    line = line_of(event)
    assert line is not None
    assert type(event).__name__ not in line.text
    named = [event.group_id] if isinstance(event, GroupEvent) else []
    named += [member.member_id] if isinstance(member := getattr(event, "member", None), MemberRef) else []
    if isinstance(event, Transition):
        named = [event.group_id]
    assert [name for name in named if name not in line.text] == []


@pytest.mark.parametrize("new", [GroupState.COMPLETING_REBALANCE, GroupState.STABLE])
def test_a_transition_that_another_event_tells_of_has_no_line(new: GroupState) -> None:
    assert line_of(goes_to(new)) is None


def test_the_last_sync_of_a_group_that_is_stable_already_has_no_line_for_kafka_has_none() -> None:
    assert line_of(in_group(SyncCompleted, member=ANNA, sync_ms=12)) is None


def test_failures_and_unknown_records_stand_out() -> None:
    levels = {type(event): line.level for event in OTHERS if (line := line_of(event)) is not None}
    assert (levels[AppendFailed], levels[RecordsSkipped], levels[GroupLoaded]) == ("ERROR", "WARN", "INFO")


@pytest.mark.parametrize(
    ("key_type", "what"),
    [(3, "3 (ConsumerGroupMetadata), which is not supported"), (99, "99, which is unknown")],
)
def test_records_that_are_skipped_are_named(key_type: int, what: str) -> None:
    line = line_of(RecordsSkipped(partition=3, now=NOW, key_type=key_type, count=2))
    assert line is not None
    assert line.text == f"Skipped 2 records of key type {what}"


def test_no_event_is_forgotten_here() -> None:
    classes = {found for found in vars(events).values() if isinstance(found, type) and issubclass(found, Event)}
    told = {type(event) for event, _ in AS_IN_KAFKA} | {type(event) for event in OTHERS}
    assert classes - {Event, GroupEvent, SyncCompleted} == told
