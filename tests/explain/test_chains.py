"""Disturbances by the time between them."""

from __future__ import annotations

from kshim.explain.disturbances import disturbances
from kshim.explain.facts import Known
from kshim.explain.hypotheses.chains import within_reach
from kshim.explain.lives import Group
from tests.explain.story import MINUTE, REBALANCE_MS, SECOND, Story, a_group_of_three

HOUR = 60 * MINUTE


def parts_of(story: Story) -> list[list[int]]:
    """When the disturbances of each part began."""
    known = story.known()
    found = disturbances(Group("billing", known.facts, known), known)
    return [[each.from_ms for each in part] for part in within_reach(found, known)]


def test_what_is_further_apart_than_any_member_may_take_to_come_back_is_weighed_apart() -> None:
    story = a_group_of_three().leaves(HOUR, "one").leaves(HOUR + REBALANCE_MS, "two")
    story.leaves(HOUR + 2 * REBALANCE_MS + 10 * SECOND, "three")
    assert [len(part) for part in parts_of(story)] == [3, 2, 1]


def test_a_member_with_a_longer_timeout_keeps_together_what_happens_to_the_others() -> None:
    story = a_group_of_three().leaves(HOUR, "one").leaves(2 * HOUR, "two")
    known = story.known()
    three = story.member("three").member_id
    patient = known.profiles[three]._replace(rebalance_ms=HOUR)
    slower = known._replace(profiles={**known.profiles, three: patient})
    found = disturbances(Group("billing", slower.facts, slower), slower)
    assert [len(part) for part in within_reach(found, known)] == [3, 1, 1]
    assert [len(part) for part in within_reach(found, slower)] == [5]


def test_a_group_that_nothing_happens_to_has_no_parts() -> None:
    assert list(within_reach([], Known((), {}, ()))) == []
