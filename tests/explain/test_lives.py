"""Members to lives: who was a member when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshim.explain.facts import Fact, Kind, Known, Member
from kshim.explain.lives import Group, downtimes
from tests.explain.story import MINUTE, SECOND, SESSION_MS, Story

Spans = list[tuple[int, int | None]]

spans = st.lists(st.tuples(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 60))), max_size=140)


def a_group(of: Spans) -> Group:
    """A group of members that join and leave at these times; None: it stays."""
    facts = []
    for number, (begin_ms, end_ms) in enumerate(of):
        member = Member(f"m{number}", None, "c", "h")
        facts.append(Fact(begin_ms, "g", Kind.JOINED, "", member))
        if end_ms is not None:
            facts.append(Fact(max(begin_ms, end_ms), "g", Kind.LEFT, "", member))
    facts.sort(key=lambda fact: fact.ts_ms)
    return Group("g", facts, Known(tuple(facts), {}, ()))


@given(spans)
def test_members_at_any_time_are_those_that_had_joined_and_had_not_left(of: Spans) -> None:
    group = a_group(of)
    for ts_ms in range(-1, 62, 7):
        assert group.alive_at(ts_ms) == [life for life in group.lives if life.is_alive_at(ts_ms)]


@given(spans)
def test_members_before_one_joined_are_those_that_joined_before_and_were_still_there(of: Spans) -> None:
    group = a_group(of)
    for place, life in enumerate(group.lives):
        assert group.before(life) == [other for other in group.lives[:place] if other.is_alive_at(life.began_ms)]


def test_a_broker_was_not_away_all_the_time_between_two_records_while_a_rebalance_ended() -> None:
    stop, done, load = (
        Fact(ts_ms, "g", kind, "", is_observed=False)
        for ts_ms, kind in ((0, Kind.STOPPING), (50, Kind.COMPLETED), (100, Kind.LOADED))
    )
    assert downtimes([stop, load]) == [(0, 100)]
    assert downtimes([stop, done, load]) == []
    assert downtimes([stop._replace(is_observed=True), done, load]) == [(0, 100)]


def test_processes_that_waited_in_a_rebalance_before_a_restart_may_have_ended_as_soon_as_they_had_joined() -> None:
    """Each is killed within seconds, while the session of the first one lasts; then the others' begin anew, and again with the broker."""
    story = Story().joins(0, "a").joins(SECOND, "b", host="10.0.0.2")
    for number in range(1, 4):
        story.joins(MINUTE + 9 * SECOND * number, "a", completes=False)
    story.expires(MINUTE + SESSION_MS, "a", completes=False).completes(MINUTE + SESSION_MS, join_ms=36 * SECOND)
    story.stops(2 * MINUTE + 20 * SECOND).loads(2 * MINUTE + 30 * SECOND)
    for _ in range(2):
        story.expires(2 * MINUTE + 30 * SECOND + SESSION_MS, "a", completes=False)
    known = story.known()
    lives = [
        life
        for life in Group("billing", known.facts, known, downtimes(known.facts)).lives
        if life.member.client_id == "a"
    ]
    assert [life.next for life in lives] == [*lives[1:], None]


def test_a_kafka_that_was_killed_is_away_until_it_has_read_its_groups_for_the_second_time() -> None:
    """It does so at first as the broker that is still registered, and nobody can connect; sessions end meanwhile, and nothing else happens."""
    story = Story(session_ms=6 * SECOND).joins(0, "a").stops(MINUTE).loads(MINUTE + 17 * SECOND)
    story.expires(MINUTE + 23 * SECOND, "a", completes=False).loads(MINUTE + 27 * SECOND)
    known = story.known()
    group = Group("billing", known.facts, known, downtimes(known.facts))
    assert group.up_ms(MINUTE - SECOND, MINUTE + 28 * SECOND) == 2 * SECOND
    later = story.joins(MINUTE + 30 * SECOND, "a").loads(MINUTE + 35 * SECOND).known()
    assert downtimes(later.facts) == downtimes(known.facts), "it was there meanwhile"
