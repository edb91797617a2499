"""`Kshim.group` of a group of the new protocol: all that is said of and done to a classic one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshim.testing import Kshim
from kshim_protocol.errors import ErrorCode
from tests.testing.members import EpochMember, epoch_member


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 3}, clock="manual") as found:
        yield found


def settle(kshim: Kshim, *members: EpochMember) -> None:
    """Heartbeats until each member is at its target."""
    kshim.clock.advance(1)
    for _ in range(3):
        for each in members:
            assert each.heartbeat() is ErrorCode.NONE
    kshim.group("billing").wait_stable(members=len(members))


def test_a_group_is_seen_with_its_epoch_and_assignment(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with epoch_member(kshim, "ann"), epoch_member(kshim, "ben"):
        assert (group.state, group.generation, group.protocol) == ("Assigning", 3, "uniform")
        assert [(each.member_id, each.client_id) for each in group.members] == [
            ("ann", "client-ann"),
            ("ben", "client-ben"),
        ]
        assert group.assignment == {"ann": (("orders", 0), ("orders", 1), ("orders", 2)), "ben": ()}


def test_each_epoch_is_a_rebalance_that_says_why_and_who_held_it_up(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with epoch_member(kshim, "ann") as ann, epoch_member(kshim, "ben") as ben:
        kshim.clock.advance(1)
        assert ann.heartbeat() is ErrorCode.NONE
        kshim.clock.advance(2)
        settle(kshim, ann, ben)
        first, second = group.rebalances
        assert (first.why, first.to_generation, first.outcome, first.duration_ms) == (
            "member_joined",
            2,
            "completed",
            0,
        )
        assert second.who is not None
        assert (second.who.member_id, second.compute_ms, second.revoke_ms) == ("ben", 1_000, 3_000)
        assert second.last_to_revoke is not None
        assert second.last_to_revoke.member_id == "ann"
        assert "member ben (client client-ben at 127.0.0.1) joined" in group.explain()
        assert "3.000 s of it was the wait until member ann" in group.explain()
        assert "to revoke orders-2" in group.timeline()
        group.assert_rebalances(at_most=2)


def test_a_wait_for_a_stable_group_that_is_over_says_what_is_waited_for(kshim: Kshim) -> None:
    with epoch_member(kshim, "ann") as ann, epoch_member(kshim, "ben"):
        kshim.clock.advance(1)
        ann.heartbeat()
        with pytest.raises(TimeoutError, match="Member ann has still to give up orders-2"):
            kshim.group("billing").wait_stable(timeout=0.01)


def test_a_topic_that_is_made_is_waited_for(kshim: Kshim) -> None:
    with epoch_member(kshim, "ann", "orders", "later") as ann:
        settle(kshim, ann)
        kshim.create_topic("later", partitions=1)
        with pytest.raises(TimeoutError):
            kshim.group("billing").wait_stable(timeout=0.01)
        settle(kshim, ann)


def test_what_is_done_to_a_member_is_what_it_hears_of(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with epoch_member(kshim, "ann") as ann, epoch_member(kshim, "ben", instance_id="i") as ben:
        settle(kshim, ann, ben)
        assert group.expel("client-ann") == "ann"
        assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.rebalances[-1].why == "admin"
        kshim.clock.advance(1)
        settle(kshim, ben)
        new_id = group.fence("i")
        assert ben.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
        assert [each.member_id for each in group.members] == [new_id]
        assert group.expire("i") == new_id
        assert group.wait_empty().state == "Empty"
        assert group.rebalances[-1].why == "session_timeout"


def test_a_rebalance_that_is_triggered_raises_the_epoch_and_moves_nothing(kshim: Kshim) -> None:
    group = kshim.group("billing")
    with epoch_member(kshim, "ann") as ann:
        kshim.clock.advance(1)
        before = group.assignment
        group.trigger_rebalance("a test")
        assert (group.state, group.rebalances[-1].why) == ("Assigning", "admin")
        settle(kshim, ann)
        assert (group.generation, group.assignment) == (3, before)


def test_members_are_kept_alive_while_the_clock_is_moved(kshim: Kshim) -> None:
    with epoch_member(kshim, "ann"), epoch_member(kshim, "ben"):
        kshim.clock.advance(100, keep_alive=["ann"])
        assert [each.member_id for each in kshim.group("billing").members] == ["ann"]
