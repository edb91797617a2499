"""From what a member owns to what it is to own, one heartbeat at a time.

A partition is in no two members' hands: who is to lose some gives them up first, who is to gain some waits until they are
free. Source: Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import NamedTuple

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.state import MemberState
from kshim_protocol.errors import ErrorCode, KafkaError


class Current(NamedTuple):
    """Where a member is. Each partition comes with the member epoch in which it was assigned.

    The partitions of both maps are in the member's hands; those of `pending_revocation` it was told to give up.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicPartition, int] = {}
    pending_revocation: Mapping[TopicPartition, int] = {}

    def is_at(self, target_epoch: int) -> bool:
        """Whether there is nothing left to do up to this epoch."""
        return self.epoch == target_epoch and self.state is MemberState.STABLE


Owned = Collection[TopicPartition] | None
"""What a member says it owns; None: it did not say, so perhaps all it ever got."""


def reconcile(
    current: Current,
    *,
    target_epoch: int,
    target: Set[TopicPartition],
    owned: Owned,
    is_free: Callable[[TopicPartition], bool],
) -> Current:
    """The next step of a member that reports `owned`; `is_free` is asked of partitions that it does not have assigned."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
        case MemberState.UNREVOKED_PARTITIONS:
            if _may_still_own(owned, current.pending_revocation):
                return current
        case MemberState.UNRELEASED_PARTITIONS | MemberState.UNKNOWN:
            pass
    kept = {partition: epoch for partition, epoch in current.assigned.items() if partition in target}
    to_revoke = {partition: epoch for partition, epoch in current.assigned.items() if partition not in target}
    if to_revoke and _may_still_own(owned, to_revoke):
        return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    missing = target - kept.keys()
    free = {partition for partition in missing if is_free(partition)}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    return Current(target_epoch, current.epoch, state, {**kept, **dict.fromkeys(sorted(free), target_epoch)})


def _may_still_own(owned: Owned, partitions: Collection[TopicPartition]) -> bool:
    return owned is None or any(partition in partitions for partition in owned)


def require_epoch(current: Current, epoch: int, owned: Owned) -> None:
    """Whether a member may send this epoch. Raises KafkaError: FENCED_MEMBER_EPOCH.

    The previous epoch is taken from a member that did not get our answer: it says what it owns, and it owns nothing that
    is not assigned to it.
    """
    if epoch == current.epoch:
        return
    has_lost_answer = epoch == current.previous_epoch and epoch < current.epoch
    if not has_lost_answer or owned is None or any(partition not in current.assigned for partition in owned):
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
