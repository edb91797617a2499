"""One member on its way to its target: what it gives up, waits for and gets; and which epochs it may send."""

from __future__ import annotations

import pytest

from kshim.coordinator.groups.consumer.assignors.subscribers import TopicPartition
from kshim.coordinator.groups.consumer.reconciliation import Current, Owned, reconcile, require_epoch
from kshim.coordinator.groups.consumer.state import ConsumerGroupState, MemberState, state_of
from kshim_protocol.errors import ErrorCode, KafkaError

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def p(*indexes: int) -> set[TopicPartition]:
    return {(b"t" * 16, index) for index in indexes}


def since(epoch: int, *indexes: int) -> dict[TopicPartition, int]:
    return dict.fromkeys(sorted(p(*indexes)), epoch)


def step(
    current: Current,
    target_epoch: int,
    target: set[TopicPartition],
    *,
    owned: Owned = None,
    held: Owned = (),
    subscribed: bool = True,
) -> Current:
    """One heartbeat; partitions in `held` are in the hands of others."""
    return reconcile(
        current,
        target_epoch=target_epoch,
        target=target,
        owned=owned,
        is_free=lambda partition: partition not in (held or ()),
        subscribed={b"t" * 16} if subscribed else set(),
    )


def test_the_first_member_gets_everything_at_once() -> None:
    assert step(Current(), 2, p(0, 1, 2), owned=()) == Current(2, 0, STABLE, since(2, 0, 1, 2))


def test_a_second_member_takes_over_one_partition_as_on_a_live_kafka() -> None:
    a = Current(2, 0, STABLE, since(2, 0, 1, 2))
    b = Current(2, 0, STABLE)
    a = step(a, 3, p(0, 1), owned=None)
    assert a == Current(2, 2, UNREVOKED, since(2, 0, 1), since(2, 2))
    b = step(b, 3, p(2), held=p(0, 1, 2))
    assert b == Current(3, 2, UNRELEASED)
    a = step(a, 3, p(0, 1), owned=p(0, 1))
    assert a == Current(3, 2, STABLE, since(2, 0, 1))
    b = step(b, 3, p(2), held=p(0, 1))
    assert b == Current(3, 3, STABLE, since(3, 2))


def test_a_member_gives_up_at_once_what_it_no_longer_subscribes_to() -> None:
    current = Current(3, 2, STABLE, since(3, 0, 1))
    revoking = step(current, 3, p(0, 1), owned=p(0, 1), subscribed=False)
    assert revoking == Current(3, 3, UNREVOKED, {}, since(3, 0, 1))
    assert step(revoking, 3, p(0, 1), owned=(), held=p(0, 1), subscribed=False) == Current(3, 3, STABLE)


def test_a_member_that_revokes_and_unsubscribes_has_more_to_give_up() -> None:
    revoking = Current(2, 2, UNREVOKED, since(2, 0), since(2, 1))
    assert step(revoking, 3, p(0), owned=None, subscribed=False) == Current(2, 2, UNREVOKED, {}, since(2, 1, 0))
    assert step(revoking, 3, p(0), owned=None) is revoking


def test_a_member_at_its_target_stays_as_it_is() -> None:
    current = Current(3, 2, STABLE, since(2, 0))
    assert step(current, 3, p(0), owned=p(0)) is current


@pytest.mark.parametrize("owned", [None, p(0, 1), p(1)], ids=["says nothing", "has both", "has what it is to lose"])
def test_a_member_that_may_still_own_what_it_is_to_lose_stays_unrevoked(owned: Owned) -> None:
    current = Current(2, 2, UNREVOKED, since(2, 0), since(2, 1))
    assert step(current, 3, p(0), owned=owned) is current


def test_a_member_that_owns_less_than_it_has_assigned_need_not_be_told_to_revoke() -> None:
    current = Current(2, 0, STABLE, since(2, 0, 1))
    assert step(current, 3, p(0), owned=p(0)) == Current(3, 2, STABLE, since(2, 0))


def test_a_member_that_revoked_goes_on_to_the_newest_target_and_may_have_to_revoke_again() -> None:
    current = Current(2, 2, UNREVOKED, since(2, 0, 1), since(2, 2))
    assert step(current, 4, p(0), owned=p(0, 1)) == Current(2, 2, UNREVOKED, since(2, 0), since(2, 1))


def test_what_is_free_is_taken_while_the_rest_is_waited_for() -> None:
    current = step(Current(), 3, p(0, 1), owned=(), held=p(1))
    assert current == Current(3, 0, UNRELEASED, since(3, 0))
    assert step(current, 3, p(0, 1), owned=p(0)) == Current(3, 3, STABLE, since(3, 0, 1))


def test_a_member_that_waits_gives_up_what_a_newer_target_takes_from_it() -> None:
    current = Current(3, 2, UNRELEASED, since(3, 0))
    assert step(current, 4, p(1), owned=None, held=p(1)) == Current(3, 3, UNREVOKED, {}, since(3, 0))


def test_a_kept_partition_keeps_the_epoch_in_which_it_was_assigned() -> None:
    current = step(Current(5, 4, STABLE, since(3, 0)), 6, p(0, 1))
    assert current.assigned == {**since(3, 0), **since(6, 1)}


# Epochs that a member sends

STANDING = Current(5, 4, STABLE, since(4, 0, 1))


def test_the_current_epoch_is_taken_whatever_it_owns() -> None:
    require_epoch(STANDING, 5, None)
    require_epoch(STANDING, 5, p(9))


def test_after_a_lost_answer_the_previous_epoch_is_taken() -> None:
    require_epoch(STANDING, 4, p(0))
    require_epoch(STANDING, 4, ())


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(6, p(0)), (3, p(0)), (4, None), (4, p(0, 2))],
    ids=["newer", "older than the previous", "previous, but says nothing", "previous, but owns what it does not have"],
)
def test_any_other_epoch_is_fenced(epoch: int, owned: Owned) -> None:
    with pytest.raises(KafkaError) as raised:
        require_epoch(STANDING, epoch, owned)
    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_was_told_to_revoke_may_not_send_the_epoch_before() -> None:
    told = step(STANDING, 6, p(0))
    assert told.state is UNREVOKED
    with pytest.raises(KafkaError):
        require_epoch(told, 4, p(0))


# States of a group


@pytest.mark.parametrize(
    ("group_epoch", "target_epoch", "members", "state"),
    [
        (3, 2, [], ConsumerGroupState.EMPTY),
        (3, 2, [(2, STABLE)], ConsumerGroupState.ASSIGNING),
        (3, 3, [(3, STABLE), (2, STABLE)], ConsumerGroupState.RECONCILING),
        (3, 3, [(3, UNRELEASED)], ConsumerGroupState.RECONCILING),
        (3, 3, [(3, STABLE), (-2, STABLE)], ConsumerGroupState.RECONCILING),
        (3, 3, [(3, STABLE), (3, STABLE)], ConsumerGroupState.STABLE),
    ],
)
def test_the_state_of_a_group_follows_from_its_epochs(
    group_epoch: int, target_epoch: int, members: list[tuple[int, MemberState]], state: ConsumerGroupState
) -> None:
    assert state_of(group_epoch=group_epoch, target_epoch=target_epoch, members=members) is state
