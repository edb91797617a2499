"""Explaining again and again, as more becomes known."""

from __future__ import annotations

from itertools import pairwise

from kshim.explain import Explainer, Incident, Known, explain
from kshim.explain.document import document
from tests.explain.story import MINUTE, SECOND, SESSION_MS, Story, activity

HOUR = 60 * MINUTE


def two_groups() -> Story:
    """Restarts, a loop, a host that stands still, a broker that is restarted."""
    story = Story()
    for group in ("billing", "orders"):
        story.joins(0, f"{group}-a", group=group, host="10.0.0.7", connection=group)
        story.joins(300, f"{group}-b", group=group, host="10.0.0.8")
        silent = activity(last_request_ms=HOUR, connection=group)
        story.expires(HOUR + SESSION_MS, f"{group}-a", group=group, activity=silent)
        story.joins(HOUR + MINUTE, f"{group}-a", group=group, host="10.0.0.7", connection=f"{group} 2", opened_ms=500)
    for number in range(3):
        at_ms = 2 * HOUR + number * MINUTE
        story.leaves(at_ms, "billing-b").joins(at_ms + 20 * SECOND, "billing-b", host="10.0.0.8")
    story.stops(3 * HOUR).loads(3 * HOUR + 10 * SECOND).leaves(4 * HOUR, "orders-b", group="orders")
    return story


def text_of(incidents: list[Incident]) -> object:
    return document(incidents, (), None)


def test_what_is_known_bit_by_bit_is_explained_as_what_is_known_at_once() -> None:
    known = two_groups().known()
    explainer = Explainer()
    times_ms = [fact.ts_ms for fact in known.facts]
    for count, (at_ms, next_ms) in enumerate(pairwise([*times_ms, times_ms[-1] + HOUR]), 1):
        for until_ms in (at_ms, min(at_ms + 2 * SESSION_MS, next_ms)):
            now = Known(known.facts[:count], known.profiles, known.sources, until_ms)
            assert text_of(explainer.explain(now)) == text_of(explain(now))


def test_a_group_of_which_nothing_more_is_known_is_not_weighed_again() -> None:
    story = Story().joins(0, "one").joins(300, "two", host="10.0.0.2")
    explainer = Explainer()
    (start,) = explainer.explain(story.known())
    story.joins(HOUR, "other", group="orders", host="10.0.0.9")
    again, other = explainer.explain(story.known())
    assert again is start
    assert other.groups == ("orders",)


def test_an_absence_is_weighed_again_when_it_has_lasted_for_longer() -> None:
    story = Story().joins(0, "one").joins(300, "two", host="10.0.0.2").expires(HOUR, "one")
    explainer = Explainer()
    first = explainer.explain(story.known())[-1]
    later = explainer.explain(story.known(until_ms=HOUR + 2 * SESSION_MS))[-1]
    assert later.confidence > first.confidence
