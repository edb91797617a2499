"""Incidents of groups of the new protocol, explained from the events that the history tells of them."""

from __future__ import annotations

from kshim.explain import Incident, Known, explain
from kshim.explain.causes import Cause
from kshim.explain.sources.events import fact_of_event
from kshim.explain.words import paragraph
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, SESSION_MS, World
from tests.history.told import told

MINUTE = 60_000


def explained(world: World) -> list[Incident]:
    """The incidents but for the beginning of the group."""
    facts = tuple(fact for document in told(world) if (fact := fact_of_event(document)) is not None)
    found = explain(Known(facts, {}, ("events",)))
    return [each for each in found if each.cause not in (Cause.ONE_BY_ONE_START, Cause.SCALE_UP)]


def two_members() -> World:
    """Members a and b have shared topic t for a minute."""
    world = World()
    world.join("a", "t", instance_id="i")
    world.join("b", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 2)
    world.heartbeat("a", 2, owned={"t": [0, 1]})
    world.heartbeat("b", 2, owned={})
    live(world, MINUTE, a=3, b=3)
    return world


def live(world: World, ms: int, **epochs: int) -> None:
    """Heartbeats of members for a time."""
    for _ in range(ms // 5_000):
        world.pass_ms(5_000)
        for member_id, epoch in epochs.items():
            world.heartbeat(member_id, epoch)


def test_a_member_that_gives_up_its_partitions_late_did_not_poll() -> None:
    world = two_members()
    world.join("c", "t")
    world.pass_ms(INTERVAL_MS)
    for member_id in ("a", "b"):
        world.heartbeat(member_id, 3)
    live(world, 30_000, a=3, b=3, c=3)
    world.heartbeat("a", 3, owned={"t": [0]})
    world.heartbeat("b", 3, owned={"t": [2]})
    world.heartbeat("c", 3, owned={})
    world.heartbeat("c", 4, owned={})
    [incident] = explained(world)
    assert (incident.cause, incident.clients) == (Cause.SLOW_POLL, ("i",))
    assert "REVOKE took 31.0 s (last to revoke: i)" in paragraph(incident)


def test_a_member_that_changes_its_subscription_is_named() -> None:
    world = two_members()
    world.heartbeat("b", 3, names=("t", "u"))
    world.pass_ms(INTERVAL_MS)
    for epoch in (3, 4):
        world.heartbeat("a", epoch)
        world.heartbeat("b", epoch)
    [incident] = explained(world)
    assert incident.cause is Cause.SUBSCRIPTION_CHANGED
    assert incident.confidence > 0.8


def test_topics_that_change_are_told_by_the_broker() -> None:
    world = two_members()
    world.topics.topics["t"] = (5, 0)
    for epoch in (3, 4):
        world.pass_ms(INTERVAL_MS)
        world.heartbeat("a", epoch)
        world.heartbeat("b", epoch)
    [incident] = explained(world)
    assert incident.cause is Cause.PARTITIONS_ADDED
    assert incident.confidence > 0.8


def test_a_static_member_that_is_back_soon_was_restarted() -> None:
    world = two_members()
    world.heartbeat("a", -2, instance_id="i")
    live(world, 10_000, b=3)
    world.join("a2", "t", instance_id="i")
    live(world, MINUTE, a2=3, b=3)
    [incident] = explained(world)
    assert incident.cause is Cause.STATIC_RESTART


def test_partitions_of_a_member_that_falls_silent_have_no_owner_for_its_session() -> None:
    world = two_members()
    live(world, SESSION_MS, b=3)
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("b", 4)
    [incident] = explained(world)
    assert "i" in incident.clients
    assert incident.effects[0].unowned_ms is not None
    assert incident.effects[0].unowned_ms >= SESSION_MS
