"""What simulated leaders assign."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshim_pipeline.demo.assignors import (
    assign,
    assign_in_turn,
    assign_sticky,
    build_assignment,
    build_subscription,
    parse_assignment,
)

PARTITIONS = [("t", index) for index in range(12)]


def test_partitions_go_round_in_turn() -> None:
    assert assign_in_turn(["a", "b"], PARTITIONS[:3]) == {
        "a": frozenset({("t", 0), ("t", 2)}),
        "b": frozenset({("t", 1)}),
    }


def test_what_a_member_has_to_give_up_is_nobodys_until_it_did() -> None:
    assigned = assign_sticky({"a": frozenset(PARTITIONS[:4]), "b": frozenset()}, PARTITIONS[:4])
    assert (len(assigned["a"]), assigned["b"]) == (2, frozenset())
    assert assign_sticky(assigned, PARTITIONS[:4]) == {
        "a": assigned["a"],
        "b": frozenset(PARTITIONS[:4]) - assigned["a"],
    }


@given(st.lists(st.sampled_from("abcde"), min_size=12, max_size=12), st.integers(1, 5))
def test_sticky_assignments_are_level_after_two_rounds_and_never_have_two_owners(owners: list[str], count: int) -> None:
    members = "abcde"[:count]
    owned = {
        member: frozenset(p for p, owner in zip(PARTITIONS, owners, strict=True) if owner == member)
        for member in members
    }
    for _ in range(2):
        owned = assign_sticky(owned, PARTITIONS)
        held = [partition for mine in owned.values() for partition in mine]
        assert len(held) == len(set(held))
    assert sorted(held) == PARTITIONS
    assert max(map(len, owned.values())) - min(map(len, owned.values())) <= 1


def test_leaders_read_subscriptions_and_members_their_assignment() -> None:
    subscription = build_subscription(("t", "u"), frozenset(), -1)
    assigned = assign({"a": subscription, "b": subscription}, {"t": 2, "u": 1}, protocol_name="range")
    assert assigned["a"] | assigned["b"] == {("t", 0), ("t", 1), ("u", 0)}
    assert parse_assignment(build_assignment(assigned["a"])) == assigned["a"]
    assert parse_assignment(b"") == frozenset()
