"""Records of groups of the new protocol to facts: those that a simulated coordinator writes, beside what its events say."""

from __future__ import annotations

from collections.abc import Sequence

from kshim.explain.causes import DOWNGRADED, UPGRADED
from kshim.explain.facts import Activity, Fact, Kind
from kshim.explain.sources.consumer_records import converted, profiles_of_epochs, session_of_events, session_of_records
from kshim.explain.sources.events import fact_of_event
from tests.coordinator.groups.consumer.test_heartbeat import INTERVAL_MS, SESSION_MS, World
from tests.explain.test_epochs import MINUTE, facts_of, live, read, two_members
from tests.history.told import told

SAID = (Kind.JOINED, Kind.REPLACED, Kind.STOPPED, Kind.COMPLETED, Kind.EMPTIED)


def events_of(world: World) -> list[Fact]:
    return [fact for document in told(world) if (fact := fact_of_event(document)) is not None]


def course(facts: list[Fact], kinds: Sequence[Kind] = SAID) -> list[tuple[int, Kind, str | None]]:
    """What happened, when, to whom."""
    return [(fact.ts_ms, fact.kind, fact.member and fact.member.member_id) for fact in facts if fact.kind in kinds]


def without_trigger(rows: list[tuple[int, Kind, str | None]]) -> list[tuple[int, Kind, str | None]]:
    """Events name with a whole group's fact the member that began the rebalance."""
    of_group = (Kind.COMPLETED, Kind.EMPTIED)
    return [(ts_ms, kind, None if kind in of_group else member) for ts_ms, kind, member in rows]


def a_day() -> World:
    """A static member is replaced, the other one leaves, and the static one is stopped and stays away."""
    world = two_members()
    world.heartbeat("a", -2, instance_id="i")
    live(world, 10_000, b=3)
    world.join("a2", "t", instance_id="i")
    live(world, MINUTE, a2=3, b=3)
    world.heartbeat("b", -1)
    for _ in range(12):
        world.pass_ms(5_000)
        world.beat("a2")
    world.heartbeat("a2", -2, instance_id="i")
    world.pass_ms(SESSION_MS)
    return world


def test_records_say_who_came_and_when_rebalances_were_over_as_events_do() -> None:
    world = a_day()
    assert course(facts_of(world)) == without_trigger(course(events_of(world)))


def test_who_held_up_a_rebalance_and_for_how_long_is_in_the_records() -> None:
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
    of_records, of_events = ([fact.phases for fact in facts][-1] for facts in (facts_of(world), events_of(world)))
    assert of_records is not None
    assert of_events is not None
    assert of_records.has_epochs
    assert (of_records.join_ms, of_records.last_wait_ms) == (of_events.join_ms, of_events.last_wait_ms)
    assert of_records.last_to_join is not None
    assert of_records.last_to_join.name == "i"


def test_a_new_epoch_with_other_topics_that_no_member_asked_for_is_the_topics_doing() -> None:
    world = two_members()
    world.topics.topics["t"] = (5, 0)
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 3)
    [fact] = [fact for fact in facts_of(world) if fact.kind is Kind.REQUESTED]
    assert (fact.reason, fact.member) == ("topics_changed", None)


def test_what_a_member_adds_to_its_subscription_is_said_with_the_member() -> None:
    world = two_members()
    world.heartbeat("b", 3, names=("t", "u"))
    [fact] = [fact for fact in facts_of(world) if fact.kind is Kind.REQUESTED]
    assert fact.member is not None
    assert fact.subscription is not None
    assert (fact.reason, fact.member.member_id, fact.subscription.added) == ("subscription_changed", "b", ("u",))


def silent(commits_until_ms: int, usual_ms: int = 1_000) -> tuple[World, dict[tuple[str, int], list[int]]]:
    """Member b, which has committed regularly, is gone a minute after it had joined."""
    world = two_members()
    began_ms = facts_of(world)[0].ts_ms
    world.heartbeat("b", -1)
    commits = list(range(began_ms, began_ms + commits_until_ms, usual_ms))
    return world, {("t", number): commits for number in range(3)}


def how(world: World, commits: dict[tuple[str, int], list[int]], session_ms: int | None = SESSION_MS) -> Fact:
    [fact] = [fact for fact in facts_of(world, commits, session_ms) if fact.kind in (Kind.LEFT, Kind.EXPIRED)]
    return fact


def test_who_committed_until_it_was_gone_has_left() -> None:
    fact = how(*silent(MINUTE))
    assert (fact.kind, fact.reason, fact.client_reason, fact.is_observed) == (Kind.LEFT, "", None, False)


def test_the_session_has_expired_of_who_was_silent_for_a_session() -> None:
    world, commits = silent(MINUTE - SESSION_MS + INTERVAL_MS)
    assert how(world, commits).kind is Kind.EXPIRED


def test_who_has_never_committed_was_gone_in_an_unknown_way() -> None:
    world, _ = silent(MINUTE)
    assert how(world, {}).reason == "unseen"


def test_a_static_member_that_is_gone_has_not_left() -> None:
    world = two_members()
    live(world, SESSION_MS, b=3)
    world.pass_ms(INTERVAL_MS)
    fact = how(world, {})
    assert fact.member is not None
    assert (fact.kind, fact.member.instance_id) == (Kind.EXPIRED, "i")


def test_a_member_that_was_gone_while_it_had_partitions_to_give_up_is_said_to_have() -> None:
    world = two_members()
    world.join("c", "t")
    world.pass_ms(INTERVAL_MS)
    world.heartbeat("a", 3)
    told_ms = world.wall_ms
    world.pass_ms(MINUTE)
    [fact] = [fact for fact in facts_of(world) if fact.told_ms is not None]
    assert fact.member is not None
    assert (fact.member.member_id, fact.told_ms) == ("a", told_ms)


def test_how_long_sessions_are_follows_from_several_members_that_fell_silent() -> None:
    world, commits = silent(30_000)
    [fact] = [fact for fact in facts_of(world, commits, None) if fact.kind is Kind.EXPIRED]
    assert fact.committed is not None
    heard = fact._replace(committed=fact.committed._replace(last_ms=fact.ts_ms - 11_300))
    assert session_of_records([heard] * 3) == 10_000
    assert session_of_records([heard]) is None


def test_how_long_sessions_are_follows_from_the_last_heartbeats_of_members_that_expired() -> None:
    world = two_members()
    world.pass_ms(2 * SESSION_MS)
    [gone, *_] = [fact for fact in events_of(world) if fact.kind is Kind.EXPIRED]

    def seen(api: str, before_ms: int) -> Fact:
        return gone._replace(activity=Activity("1", 0, None, None, gone.ts_ms - before_ms, api, None, None))

    heartbeats = [seen("ConsumerGroupHeartbeat", 10_012), seen("ConsumerGroupHeartbeat", 10_031)]
    assert session_of_events([*heartbeats, *[seen("Metadata", 7_800)] * 5]) == 10_000
    assert session_of_events([seen("Metadata", 7_800), seen("Fetch", 8_961)]) == 9_000
    assert session_of_events([]) is None


def test_profiles_have_what_members_asked_for_and_the_session_of_the_broker() -> None:
    found = profiles_of_epochs(read(two_members()).epochs["g"], 12_000)
    assert {member_id: (each.session_ms, each.rebalance_ms, each.topics) for member_id, each in found.items()} == {
        "a": (12_000, 60_000, ("t",)),
        "b": (12_000, 60_000, ("t",)),
    }


def test_topics_that_a_new_member_brings_along_have_not_changed() -> None:
    world = two_members()
    world.join("c", "u")
    world.topics.topics["u"] = (9, 0)
    for _ in range(3):
        world.pass_ms(INTERVAL_MS)
        world.beat("c")
    assert [fact for fact in facts_of(world) if fact.kind is Kind.REQUESTED] == []


def test_members_of_a_group_that_changes_its_kind_neither_leave_nor_join() -> None:
    [joined, *_] = facts_of(two_members())
    assert joined.member is not None
    earlier = joined._replace(ts_ms=joined.ts_ms - MINUTE)
    left = joined._replace(kind=Kind.LEFT)
    emptied = joined._replace(kind=Kind.EMPTIED, member=None)
    [first, conversion] = converted([earlier, left, emptied], [joined])
    assert first == earlier
    assert (conversion.kind, conversion.reason, conversion.ts_ms) == (Kind.REQUESTED, UPGRADED, joined.ts_ms)


def test_a_group_that_goes_back_to_the_classic_protocol_was_told_to_by_nobody_else() -> None:
    [joined, *_] = facts_of(two_members())
    assert joined.member is not None
    back = joined._replace(ts_ms=joined.ts_ms + MINUTE)
    [gone, again] = (joined._replace(ts_ms=back.ts_ms + ms, kind=Kind.LEFT) for ms in (5, 9))
    found = converted([back], [joined, gone, again])
    assert [(fact.kind, fact.reason, fact.ts_ms) for fact in found] == [
        (Kind.JOINED, "", joined.ts_ms),
        (Kind.REQUESTED, DOWNGRADED, back.ts_ms),
    ]
