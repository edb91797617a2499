"""What the coordinator tells of the members of streams and share groups when a plan has come true."""

from __future__ import annotations

from kshim.coordinator.groups.events import MemberReconciled
from tests.coordinator.groups.share.world import INTERVAL_MS
from tests.coordinator.groups.share.world import World as ShareWorld
from tests.coordinator.groups.streams.world import World as StreamsWorld
from tests.coordinator.harness import Sim


def reconciled(sim: Sim, since: int) -> list[str]:
    """The members that took a step, from the `since`-th event on."""
    return [event.member.member_id for event in sim.events[since:] if isinstance(event, MemberReconciled)]


def test_a_member_of_a_streams_group_of_which_only_the_target_has_changed_took_no_step() -> None:
    world = StreamsWorld(initial_rebalance_delay_ms=0, assignment_interval_ms=0)
    world.join("a")
    since = len(world.events)
    world.join("b")
    assert reconciled(world, since) == ["b"]


def test_a_member_of_a_share_group_of_which_only_the_target_has_changed_took_no_step() -> None:
    world = ShareWorld()
    world.join("a", "t")
    world.pass_ms(INTERVAL_MS)
    world.beat("a", 2)
    world.pass_ms(INTERVAL_MS)
    since = len(world.events)
    world.join("b", "t")
    assert reconciled(world, since) == ["b"]
