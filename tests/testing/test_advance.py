"""Advancing the clock: in one go or in pieces, the same fires at the same instants; and it always comes to an end."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kshim.coordinator.step import RequestContext
from kshim.harness.answer import Answer
from kshim.testing import Brokers, Fired, Kshim, open_brokers
from kshim_protocol.group_requests import GroupMember

CONSUMER = [("range", b"")]


class Plan(NamedTuple):
    """What has deadlines: members by group with their session timeouts (s), and timers that set themselves again (ms)."""

    sessions: list[tuple[str, int]]
    intervals: list[int]
    rebalance_s: int


PLANS = st.builds(
    Plan,
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(6, 60)), max_size=8),
    st.lists(st.integers(500, 20_000), max_size=3),
    st.integers(6, 60),
)
PIECES_S = st.lists(st.one_of(st.integers(0, 40), st.floats(0, 40).map(lambda s: round(s, 3))), min_size=1, max_size=6)


def set_up(brokers: Brokers, plan: Plan) -> None:
    for number, (group_id, session_s) in enumerate(plan.sessions):
        brokers.coordinator_of(group_id)
        join(brokers, group_id, f"member{number}", session_s, plan.rebalance_s)
    for interval_ms in plan.intervals:
        repeat(brokers, interval_ms)


def join(brokers: Brokers, group_id: str, client_id: str, session_s: int, rebalance_s: int) -> None:
    request = GroupMember(group_id).join(
        3, CONSUMER, session_timeout_ms=session_s * 1_000, rebalance_timeout_ms=rebalance_s * 1_000
    )
    context = RequestContext(3, client_id, "/127.0.0.1", brokers.clock.now())
    brokers.cluster.apply(brokers.cluster.groups.coordinator.join_group(request, context, Answer()))


def repeat(brokers: Brokers, interval_ms: int) -> None:
    brokers.cluster.timers.after(interval_ms, lambda: repeat(brokers, interval_ms), name=f"every {interval_ms}")


async def fired_by(plan: Plan, pieces_s: list[float]) -> list[tuple[str, tuple[str, ...], int]]:
    """What fires, with the ms since the start in place of the time, and without what is random in member ids."""
    async with open_brokers(clock="manual") as brokers:
        set_up(brokers, plan)
        began_ms = brokers.clock.now().wall_ms
        fired: list[Fired] = []
        for seconds in pieces_s:
            fired += brokers.advance(seconds)
        assert brokers.defects == []
        assert [each.at for each in fired] == sorted(each.at for each in fired)
        return [
            (kind, tuple(each[: len("member0")] for each in key), round(at * 1_000) - began_ms)
            for kind, key, at in fired
        ]


@settings(max_examples=40, deadline=None)
@given(PLANS, PIECES_S)
def test_pieces_fire_what_the_whole_fires_at_the_same_instants(plan: Plan, pieces_s: list[float]) -> None:
    whole_s = sum(round(seconds * 1_000) for seconds in pieces_s) / 1_000
    whole = trio.run(fired_by, plan, [whole_s])
    assert trio.run(fired_by, plan, pieces_s) == whole
    for interval_ms in set(plan.intervals):
        at = [at_ms for kind, _, at_ms in whole if kind == f"every {interval_ms}"]
        assert len(set(at)) == round(whole_s * 1_000) // interval_ms


def test_what_a_timer_sets_within_the_span_fires_too_at_its_own_instant() -> None:
    seen: list[tuple[str, int]] = []
    with Kshim(clock="manual") as kshim:

        def see(name: str) -> None:
            seen.append((name, kshim.brokers.clock.now().mono_ms - began_ms))

        def first() -> None:
            see("first")
            kshim.cluster.timers.after(250, lambda: see("second"))
            kshim.cluster.timers.after(0, lambda: see("at once"))

        began_ms = kshim.call(lambda: kshim.brokers.clock.now().mono_ms)
        kshim.call(lambda: kshim.cluster.timers.after(1_000, first, name="first"))
        kshim.clock.advance(2)
        assert seen == [("first", 1_000), ("at once", 1_000), ("second", 1_250)]


def test_a_timer_that_is_due_again_and_again_is_an_error_and_not_the_end_of_the_test() -> None:
    with Kshim(clock="manual") as kshim:
        is_over = False

        def again() -> None:
            if not is_over:
                kshim.cluster.timers.after(0, again, name="restless")

        kshim.call(lambda: kshim.cluster.timers.after(1_000, again, name="restless"))
        with pytest.raises(RuntimeError, match="due again and again at one instant; the last ones to fire: restless"):
            kshim.clock.advance(46)
        is_over = True
        kshim.clock.advance(46)


def test_it_cannot_be_advanced_by_what_it_fires() -> None:
    failures: list[str] = []

    def fire() -> None:
        try:
            kshim.clock.advance(1)
        except RuntimeError as error:
            failures.append(str(error))

    with Kshim(clock="manual") as kshim:
        kshim.call(lambda: kshim.cluster.timers.after(1_000, fire))
        kshim.clock.advance(2)
        assert failures == ["the clock is being advanced: wait until that has returned"]


def test_a_week_with_everything_that_is_checked_regularly_takes_a_moment() -> None:
    with Kshim(3, topics={"orders": 6}) as kshim:
        kshim.create_topic("prices", 6, {"cleanup.policy": "compact,delete"})
        kshim.produce("prices", "1", "2", key="tea")
        kshim.coordinator_of("g")
        for number in range(100):
            kshim.call(join, kshim.brokers, f"g{number}", "member", 45, 60)
        fired = kshim.clock.advance(7 * 86_400)
        assert {"retention", "log_cleaner", "expiry", "session"} <= {each.kind for each in fired}
        # The last check of each is made at the end, where the next one is an interval away again.
        assert max(each.at for each in fired if each.kind == "retention") >= kshim.clock.now - 300
        assert len([each for each in fired if each.kind == "log_cleaner"]) < 1_000
        assert [fired.kind for fired in kshim.clock.advance(300) if fired.kind == "retention"] == ["retention"]
