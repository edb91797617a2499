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

    @property
    def place(self) -> tuple[int, MemberState]:
        """What the state of the group depends on."""
        return self.epoch, self.state

    def in_hands(self) -> tuple[TopicPartition, ...]:
        """All partitions that nobody else may have."""
        return (*self.assigned, *self.pending_revocation)

    def is_at(self, target_epoch: int) -> bool:
        """Whether there is nothing left to do up to this epoch."""
        return self.epoch == target_epoch and self.state is MemberState.STABLE

    def held_since(self, partition: TopicPartition, *, default: int) -> int:
        """The epoch in which a partition came into the member's hands; `default` where it is not in them."""
        return self.assigned.get(partition, self.pending_revocation.get(partition, default))


Owned = Collection[TopicPartition] | None
"""What a member says it owns; None: it did not say, so perhaps all it ever got."""


def reconcile(
    current: Current,
    *,
    target_epoch: int,
    target: Set[TopicPartition],
    owned: Owned,
    is_free: Callable[[TopicPartition], bool],
    subscribed: Set[bytes],
) -> Current:
    """The next step of a member that reports `owned`; `is_free` is asked of partitions that it does not have assigned.

    Partitions of other topics than those to which it is `subscribed` (ids) now are not for it, even before a target
    without them has been computed.
    """
    target = {partition for partition in target if partition[0] in subscribed}
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                if current.assigned.keys() <= target:
                    return current
                target &= current.assigned.keys()
        case MemberState.UNREVOKED_PARTITIONS:
            if _may_still_own(owned, current.pending_revocation):
                return _without_unsubscribed(current, subscribed)
        case MemberState.UNRELEASED_PARTITIONS | MemberState.UNKNOWN:
            pass
    kept = {partition: epoch for partition, epoch in current.assigned.items() if partition in target}
    to_revoke = {partition: epoch for partition, epoch in current.assigned.items() if partition not in target}
    if to_revoke and _may_still_own(owned, to_revoke):
        return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    missing = target - kept.keys()
    given_up = current.pending_revocation  # by this member, just now: it may have them again at once
    free = {partition for partition in missing if partition in given_up or is_free(partition)}
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    return Current(target_epoch, current.epoch, state, {**kept, **dict.fromkeys(sorted(free), target_epoch)})


def _without_unsubscribed(current: Current, subscribed: Set[bytes]) -> Current:
    """A member that has still to give up partitions, and no longer wants some of the others."""
    unwanted = {partition: epoch for partition, epoch in current.assigned.items() if partition[0] not in subscribed}
    if not unwanted:
        return current
    kept = {partition: epoch for partition, epoch in current.assigned.items() if partition not in unwanted}
    return current._replace(assigned=kept, pending_revocation={**current.pending_revocation, **unwanted})


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
        which = "greater" if epoch > current.epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group coordinator "
            f"({current.epoch}). The member must abandon all its partitions and rejoin.",
        )
