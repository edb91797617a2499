"""Incidents of groups of the new protocol, explained from the events that the history tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshim.explain import Incident, Known, explain
from kshim.explain.causes import Cause
from kshim.explain.document import incident_object
from kshim.explain.facts import Fact
from kshim.explain.paragraph import paragraph
from kshim.explain.sources.consumer_records import EpochReader, with_records
from kshim.explain.sources.events import fact_of_event
from kshim.explain.sources.group_records import GroupRecords
from kshim_protocol.errors import ErrorCode
from kshim_protocol.records.record import iter_records
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, SESSION_MS, World
from tests.history.told import told

MINUTE = 60_000


def explained(world: World) -> list[Incident]:
    """The incidents but for the beginning of the group."""
    facts = tuple(fact for document in told(world) if (fact := fact_of_event(document)) is not None)
    found = explain(Known(facts, {}, ("events",)))
    return [each for each in found if each.cause not in (Cause.ONE_BY_ONE_START, Cause.SCALE_UP)]


def read(world: World) -> GroupRecords:
    """The records that the coordinator has written."""
    found = GroupRecords(None, 1_000)
    for log in world.logs.values():
        for batch in log:
            for record in iter_records(batch):
                found.add(record)
    return found


def facts_of(
    world: World, commits: Mapping[tuple[str, int], Sequence[int]] | None = None, session_ms: int | None = SESSION_MS
) -> list[Fact]:
    """What its records say."""
    records = read(world)
    return list(EpochReader("g", tuple(records.epochs["g"]), commits or {}, records.topic_names, session_ms).facts())


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


def go_on(world: World, ms: int, *members: str) -> None:
    """Heartbeats of members for a time, each in the epoch that it is in."""
    for _ in range(ms // 5_000):
        world.pass_ms(5_000)
        for member_id in members:
            world.beat(member_id)


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
    assert "REVOKE took 31.0 s (last to revoke: i)" in paragraph(incident_object(incident))


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


def test_a_static_member_that_says_it_is_stopped_and_stays_away_was_stopped() -> None:
    world = two_members()
    world.heartbeat("a", -2, instance_id="i")
    go_on(world, SESSION_MS + MINUTE, "b")
    [incident] = explained(world)
    assert (incident.cause, incident.clients) == (Cause.STATIC_STOPPED, ("i",))
    assert incident.confidence > 0.8


def test_a_process_that_asks_for_the_instance_id_of_a_living_one_is_its_twin() -> None:
    world = two_members()
    for _ in range(3):
        world.join("x", "t", instance_id="i")
        live(world, 5_000, a=3, b=3)
    live(world, 2 * SESSION_MS, a=3, b=3)
    world.heartbeat("b", -1)
    found = [(each.cause, each.clients) for each in explained(world)]
    assert (Cause.DUPLICATE_INSTANCE, ("i",)) in found


def test_a_process_that_asks_for_the_instance_id_of_a_dead_one_is_its_successor() -> None:
    world = two_members()
    for _ in range(9):
        go_on(world, 5_000, "b")
        world.join("x", "t", instance_id="i")
    go_on(world, MINUTE, "b", "x")
    [incident] = [each for each in explained(world) if "i" in each.clients]
    assert incident.cause in (Cause.STATIC_RESTART, Cause.KILLED)


def test_who_is_told_to_give_up_partitions_and_falls_silent_meanwhile_did_not_poll() -> None:
    """Some clients send no heartbeats until their application has given the partitions up."""
    world = two_members()
    world.join("c", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 3)
    world.pass_ms(SESSION_MS)
    of_events = [fact for document in told(world) if (fact := fact_of_event(document)) is not None]
    known = Known(tuple(with_records(of_events, facts_of(world))), {}, ("events",))
    assert any(each.cause is Cause.SLOW_POLL and "i" in each.clients for each in explain(known))


def test_who_asks_for_another_assignor_just_after_it_joined_has_not_changed_its_subscription() -> None:
    world = two_members()
    world.join("c", "t")
    assert world.beat("c", server_assignor="range").error is ErrorCode.NONE
    world.pass_ms(INTERVAL_MS)
    go_on(world, MINUTE, "a", "b", "c")
    assert Cause.SUBSCRIPTION_CHANGED not in [each.cause for each in explained(world)]


def test_a_deploy_replaces_also_a_process_that_was_cut_off_meanwhile_and_came_back() -> None:
    world = World()
    old, new = ([f"{name}{'x' * 20}{number}" for number in range(3)] for name in "on")
    for member_id in old:
        world.join(member_id, "t", client_id=f"client-{member_id[-1]}")
    go_on(world, MINUTE, *old)
    for number in range(3):
        there = [*new[:number], *old[number + 1 :]]
        world.heartbeat(old[number], -1)
        go_on(world, 5_000, *there)
        world.join(new[number], "t", client_id=f"client-{number}")
        if number == 0:
            go_on(world, SESSION_MS, new[0], old[1])
            world.join(old[2], "t", client_id="client-2")
        go_on(world, 15_000, *there, new[number])
    [deploy] = [each for each in explained(world) if each.cause is Cause.DEPLOY]
    assert len(deploy.clients) == 3
