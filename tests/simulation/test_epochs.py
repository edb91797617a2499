"""Seeded groups of the new protocol: nothing is wrong, and what is made wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from kshim.coordinator.groups.consumer import reconciliation
from kshim.coordinator.groups.consumer.group import ConsumerGroup
from kshim.coordinator.groups.consumer.updates import MemberCurrent, Update
from tests.simulation.epochs import simulate

SEEDS = 12
MOST_SEEDS = 40
STEPS = 150


def _partitions_are_always_free() -> AbstractContextManager[Any]:
    return patch.object(ConsumerGroup, "is_free", lambda self, partition: True)


def _nobody_has_to_give_up_first() -> AbstractContextManager[Any]:
    return patch.object(reconciliation, "_may_still_own", lambda owned, partitions: False)


def _replay_forgets_what_members_own() -> AbstractContextManager[Any]:
    put = ConsumerGroup.apply

    def apply(self: ConsumerGroup, update: Update) -> None:
        if isinstance(update, MemberCurrent) and update.current is not None and update.current.pending_revocation:
            update = MemberCurrent(update.member_id, update.current._replace(pending_revocation={}))
        put(self, update)

    return patch.object(ConsumerGroup, "apply", apply)


DEFECTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "partitions count as free while others own them": _partitions_are_always_free,
    "partitions are taken from members that still own them": _nobody_has_to_give_up_first,
    "partitions that are to be given up are forgotten": _replay_forgets_what_members_own,
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_seed_finds_anything(seed: int) -> None:
    assert simulate(seed, STEPS) is None


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_two_owners_of_a_partition_are_seen(name: str) -> None:
    with DEFECTS[name]():
        found = next((found for seed in range(MOST_SEEDS) if (found := simulate(seed, STEPS))), None)
    assert found is not None, f"{name}: not found in {MOST_SEEDS} seeds"
    assert "both read" in found.violation
    assert simulate(found.seed, STEPS) is None
