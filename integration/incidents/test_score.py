"""The score without Spark: time that goes slower than it was played."""

from __future__ import annotations

from integration.incidents.score import found_in, slower
from kshim.explain.facts import Fact, Kind, Known, Member, Phases, Profile

NOW_MS = 1_800_000_000_000
A, B = (Member(f"{name}-1", None, name, f"h{name}") for name in "ab")
PHASES = Phases(20, 5, "range", A.member_id, None, None)


def known() -> Known:
    facts = (
        Fact(NOW_MS, "g", Kind.JOINED, "event 1", A),
        Fact(NOW_MS + 100, "g", Kind.JOINED, "event 2", B),
        Fact(NOW_MS + 200, "g", Kind.COMPLETED, "event 3", phases=PHASES),
        Fact(NOW_MS + 9_000, "g", Kind.EXPIRED, "event 4", A),
    )
    return Known(facts, {each.member_id: Profile(each, 3_000, 6_000, ("t",)) for each in (A, B)}, (), NOW_MS + 30_000)


def test_instants_are_further_apart_and_durations_longer() -> None:
    slow: Known = slower(known(), 10, NOW_MS)
    assert [fact.ts_ms - NOW_MS for fact in slow.facts] == [0, 1_000, 2_000, 90_000]
    assert slow.facts[2].phases == PHASES._replace(join_ms=200, sync_ms=50)
    assert slow.session_ms(A.member_id) == 30_000
    assert slow.until_ms == NOW_MS + 300_000


def test_what_is_found_has_the_times_at_which_it_was_played() -> None:
    (killed,) = [each for each in found_in(known(), times=10) if each.cause == "killed"]
    assert (killed.from_ms, killed.to_ms) == (NOW_MS + 6_000, NOW_MS + 9_000)
