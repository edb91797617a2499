"""Plans are a pure function of profile and seed; invariants see what breaks them, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.faults.document import rule_from_document
from kshim.harness.groups import GroupView, MemberView
from kshim.testing import Kshim
from kshim.testing.chaos.invariants import Invariants, Place
from kshim.testing.chaos.plans import PROFILES, plan_of

SEEDS = st.integers(-(1 << 64), 1 << 64)
ORDERS_0, ORDERS_1 = ("orders", 0), ("orders", 1)


@given(st.sampled_from(sorted(PROFILES)), SEEDS)
def test_the_same_profile_and_seed_give_the_same_plan(profile: str, seed: int) -> None:
    plan = plan_of(profile, seed)
    assert plan == plan_of(profile, seed)
    assert 1 <= len(plan) <= 12
    assert all(act.target >= 0 and (act.rule is not None) == (act.kind == "fault") for act in plan)


@given(st.sampled_from(sorted(PROFILES)), SEEDS)
def test_every_rule_of_a_plan_can_be_armed(profile: str, seed: int) -> None:
    matches: dict[str, dict[str, object]] = {
        "group": {"group": "g"},
        "member": {"group": "g", "client_id": "c"},
        "client": {"client_id": "c"},
        "partition": {"topic": "t", "partition": 0},
        "offsets": {"topic": "__consumer_offsets"},
    }
    for act in plan_of(profile, seed):
        if act.rule is not None:
            rule_from_document({**act.rule, "match": matches[act.scope]})


@pytest.mark.parametrize("profile", PROFILES)
def test_seeds_differ(profile: str) -> None:
    assert len({str(plan_of(profile, seed)) for seed in range(20)}) > 5


def test_a_profile_there_is_not_is_refused_with_those_there_are() -> None:
    with (
        Kshim() as kshim,
        pytest.raises(ValueError, match="no chaos profile 'gc': use one of rolling-deploy, gc-pause"),
    ):
        kshim.chaos("gc", seed=1, group="billing")


def test_misuse_says_how_to_do_it_right() -> None:
    with Kshim() as kshim:
        with pytest.raises(ValueError, match="say which one with group="):
            kshim.chaos("zombie", seed=1, members={})
        with pytest.raises(
            TypeError, match=r"ann must have the methods stop and start, .* <object object at .*> has not"
        ):
            kshim.chaos("zombie", seed=1, group="billing", members={"ann": object()})
        with pytest.raises(TypeError, match="seed must be an integer, not '7'"):
            kshim.chaos("zombie", seed="7")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match=r"with kshim.chaos\(...\) as chaos:`; play\(\) does it all"):
            kshim.chaos("zombie", seed=1, group="billing").run()
        with pytest.raises(TimeoutError, match="billing"):
            kshim.chaos("zombie", seed=1, group="billing", bound=0).play()


def a_group(*owned: tuple[Place, ...], state: str = "Stable") -> GroupView:
    members = tuple(
        MemberView(f"m{at}", f"m{at}", "h", None, places, is_leader=at == 0, is_synced=True, session_timeout_ms=1)
        for at, places in enumerate(owned)
    )
    return GroupView("billing", state, 3, "range", members, is_synced=state == "Stable")


def test_a_partition_with_two_owners_is_found_once() -> None:
    invariants = Invariants(1_000)
    for now_ms in (0, 10):
        invariants.look(a_group((ORDERS_0,), (ORDERS_0, ORDERS_1)), {}, now_ms)
    assert invariants.violations == ["orders-0 has 2 owners in generation 3: m0 (h), m1 (h)"]


def test_a_partition_may_be_without_an_owner_for_as_long_as_the_bound() -> None:
    invariants = Invariants(1_000, [ORDERS_0, ORDERS_1])
    invariants.look(a_group((ORDERS_0, ORDERS_1)), {}, 0)
    invariants.look(a_group((ORDERS_0, ORDERS_1), state="PreparingRebalance"), {}, 100)
    invariants.look(a_group((ORDERS_0,)), {}, 1_100)
    assert (invariants.violations, invariants.longest_gap_ms) == ([], 1_000)
    invariants.look(a_group((ORDERS_0,)), {}, 1_101)
    assert invariants.violations == ["orders-1 had no owner for longer than 1 s"]


def test_a_gap_that_ends_too_late_is_found_though_nothing_was_seen_meanwhile() -> None:
    invariants = Invariants(1_000, [ORDERS_0])
    invariants.look(a_group(state="Empty"), {}, 0)
    invariants.look(a_group((ORDERS_0,)), {}, 1_500)
    assert invariants.violations == ["orders-0 had no owner for longer than 1 s"]


def test_a_committed_offset_that_goes_back_or_away_is_found() -> None:
    invariants = Invariants(1_000)
    for offset in (5, 7, 6, 7):
        invariants.look(a_group((ORDERS_0,)), {ORDERS_0: offset}, 0)
    invariants.look(GroupView("billing", "Unknown", 0, None, (), is_synced=False), {}, 9_000)
    assert invariants.violations == ["the committed offset of orders-0 went back from 7 to 6"]
    invariants.end({}, skipped={}, lost=())
    assert invariants.violations[1:] == ["the committed offset of orders-0 was 7, and is gone"]


@given(st.lists(st.integers(0, 20)))
def test_offsets_that_only_grow_break_nothing(offsets: list[int]) -> None:
    invariants = Invariants(1_000)
    for offset in sorted(offsets):
        invariants.look(a_group((ORDERS_0,)), {ORDERS_0: offset}, 0)
    assert invariants.violations == []
