"""What the history knows of one group while it follows it."""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import (
    AnyGroupState,
    Cause,
    EpochRaised,
    GroupEvent,
    MemberRef,
    MemberRefused,
    Transition,
)
from kshim.coordinator.groups.kinds import CONSUMER_PROTOCOL_TYPE, GroupKind
from kshim.coordinator.groups.share.state import ShareGroupState
from kshim.coordinator.groups.streams.state import StreamsGroupState
from kshim.history.course import About, Ending, Why
from kshim.history.epoch_course import EpochCourse
from kshim.history.keywords import ADMIN, REASONS
from kshim.history.timeline import Timeline
from kshim_protocol.errors import ErrorCode

_TYPES: Final = {
    GroupState: GroupKind.CLASSIC.value,
    ConsumerGroupState: GroupKind.CONSUMER.value,
    ShareGroupState: GroupKind.SHARE.value,
    StreamsGroupState: GroupKind.STREAMS.value,
}
PROTOCOL_TYPES: Final = {
    GroupKind.CONSUMER.value: CONSUMER_PROTOCOL_TYPE,
    GroupKind.SHARE.value: GroupKind.SHARE.value,
    GroupKind.STREAMS.value: GroupKind.STREAMS.value,
}
"""What members of a group with epochs speak, by its type."""

_MAY_NOT_JOIN: Final = (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED)
_TOLD_AGAIN_MS: Final = 10_000
_REFUSED_MAX: Final = 100
"""So many clients are remembered that may not join, the newest."""


class GroupHistory:
    """What is known of one group. `rebalance` is the open one, `last` the one that was completed last.

    `refused`: when it was told last that a client may not join, by client id, host and error. Of one with epochs: `course` is the open rebalance, `unowned` the partitions that nobody has, with the monotonic time since
    when, and the id of who had them before.
    """

    __slots__ = (
        "admin_removed_id",
        "course",
        "epoch",
        "group_id",
        "last",
        "protocol_type",
        "rebalance",
        "refused",
        "seq",
        "type",
        "unowned",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.seq = 0
        self.epoch = 0
        self.protocol_type: str | None = None
        self.type = "classic"
        self.course: EpochCourse | None = None
        self.unowned: dict[tuple[str, int], tuple[int, str]] = {}
        self.rebalance: Timeline | None = None
        self.last: Timeline | None = None
        self.admin_removed_id: str | None = None
        self.refused: dict[tuple[str, str, str], int] = {}

    def is_in(self, state: AnyGroupState) -> None:
        """The group is of the type that has this state."""
        self.type = _TYPES[type(state)]

    def about(self, from_generation: int, reason: str, text: str, trigger: MemberRef | None) -> About:
        """What an event of the group is about, as it is now."""
        return About(self.group_id, self.protocol_type, self.type, self.epoch, from_generation, reason, text, trigger)

    def why(self, event: GroupEvent, reason: str, text: str = "", trigger: MemberRef | None = None) -> Why:
        """What an event is about that is none of a rebalance."""
        return Why(about=self.about(event.generation_id, reason, text, trigger))

    def is_refused_again(self, event: MemberRefused) -> bool:
        """Whether it was told within ten seconds that this client may not join: some ask again and again."""
        if event.error not in _MAY_NOT_JOIN:
            return False
        client = (event.member.client_id, event.member.client_host, event.error.name)
        told_ms = self.refused.get(client)
        if told_ms is not None and event.now.mono_ms - told_ms < _TOLD_AGAIN_MS:
            return True
        self.refused.pop(client, None)  # so that the one that was told first is the first
        if len(self.refused) == _REFUSED_MAX:
            del self.refused[next(iter(self.refused))]
        self.refused[client] = event.now.mono_ms
        return False

    def ending(self, event: Transition | EpochRaised) -> Ending:
        """Why a transition happened, as the history puts it."""
        member_id = None if event.member is None else event.member.member_id
        reason = REASONS[event.cause]
        if event.cause is Cause.MEMBER_LEFT and member_id is not None and member_id == self.admin_removed_id:
            reason = ADMIN
        return Ending(reason, event.detail, member_id)
