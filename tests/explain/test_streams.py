"""Incidents of streams groups, explained from the events that the history tells of them."""

from __future__ import annotations

from typing import Any

from kshim.explain import Incident, Known, explain
from kshim.explain.causes import Cause
from kshim.explain.document import incident_object
from kshim.explain.facts import Fact
from kshim.explain.paragraph import paragraph
from kshim.explain.sources.events import fact_of_event
from tests.coordinator.groups.streams.world import SESSION_MS, World, stateful
from tests.history.told import told

MINUTE = 60_000


def explained(world: World) -> list[Incident]:
    """The incidents but for the beginning of the group."""
    found = explain(Known(facts(world), {}, ("events",)))
    return [each for each in found if each.cause not in (Cause.ONE_BY_ONE_START, Cause.SCALE_UP)]


def facts(world: World) -> tuple[Fact, ...]:
    return tuple(fact for document in told(world) if (fact := fact_of_event(document)) is not None)


def live(world: World, ms: int, *member_ids: str) -> None:
    """Members go on for a time."""
    for _ in range(ms // 5_000):
        world.pass_ms(5_000)
        goes_on(world, *member_ids)


def goes_on(world: World, *member_ids: str) -> None:
    """Members that are told to give up tasks do so, and say it at once."""
    for member_id in member_ids:
        world.beat(member_id)
        world.report(member_id)


def two_members(**options: Any) -> World:
    """Members a and b have shared four tasks for a minute."""
    world = World(initial_rebalance_delay_ms=0, assignment_interval_ms=0, **options)
    world.join("a", instance_id="one")
    world.join("b", instance_id="two")
    live(world, MINUTE, "a", "b")
    return world


def test_a_process_that_was_killed_leaves_its_tasks_without_an_owner_for_its_session() -> None:
    world = two_members()
    ran = {f"0_{index}" for each in world.owned["a"]["active"] for index in each.partitions}
    live(world, SESSION_MS + MINUTE, "b")
    [incident] = explained(world)
    assert incident.clients == ("one",)
    (effect,) = incident.effects
    assert effect.group_type == "streams"
    assert effect.unowned_ms is not None
    assert effect.unowned_ms >= SESSION_MS
    assert {(each.task, each.from_client, each.to_client, each.had_state) for each in effect.moved} == {
        (task, "one", "two", False) for task in ran
    }
    text = paragraph(incident_object(incident))
    assert "task 0_0 went from one to two, which had no standby task of it" in text
    assert "group.streams.session.timeout.ms" in text
    assert "group.streams.num.standby.replicas" in text


def test_a_standby_task_is_told_from_state_that_has_to_be_restored() -> None:
    world = two_members(topology=stateful("t"), standby_replicas=1)
    world.leave("a", instance_id="one")
    live(world, MINUTE, "b")
    [incident] = explained(world)
    assert {each.had_state for effect in incident.effects for each in effect.moved} == {True}
    assert "which had its state as a standby task" in paragraph(incident_object(incident))
    assert "num.standby.replicas" not in (incident_object(incident)["advice"] or "")


def test_a_member_that_gives_up_its_tasks_late_let_the_others_wait() -> None:
    world = two_members()
    world.join("c")
    for _ in range(6):
        world.pass_ms(5_000)
        world.beat("b")
        goes_on(world, "a", "c")
    live(world, MINUTE, "a", "b", "c")
    [incident] = explained(world)
    assert (incident.cause, incident.clients) == (Cause.SLOW_POLL, ("two",))
    text = paragraph(incident_object(incident))
    assert "two was late to give up its tasks" in text
    assert "last to revoke: two" in text


def test_another_number_of_standby_tasks_is_what_began_a_rebalance() -> None:
    world = two_members(topology=stateful("t"))
    world.settings = world.settings._replace(standby_replicas=1)
    live(world, MINUTE, "a", "b")
    [incident] = explained(world)
    assert incident.cause is Cause.SETTINGS_CHANGED
    assert incident.confidence > 0.8
    assert "group.streams.num.standby.replicas" in (incident_object(incident)["advice"] or "")


def test_internal_topics_that_a_group_has_made_are_no_incident() -> None:
    world = two_members(topology=stateful("t"))
    assert explained(world) == []


def test_partitions_that_are_added_to_its_topics_are() -> None:
    world = two_members()
    world.topics.topics["t"] = (6, 0)
    live(world, MINUTE, "a", "b")
    [incident] = explained(world)
    assert incident.cause is Cause.PARTITIONS_ADDED


def test_a_static_member_that_is_back_soon_was_restarted() -> None:
    world = two_members()
    world.leave("a", -2, instance_id="one")
    live(world, 10_000, "b")
    world.join("a2", instance_id="one", process_id="a")
    live(world, MINUTE, "a2", "b")
    [incident] = explained(world)
    assert (incident.cause, incident.clients) == (Cause.STATIC_RESTART, ("one",))
