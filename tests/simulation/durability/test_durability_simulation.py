"""A broker on a disk that fails and loses power keeps every promise; one with a defect is found out."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from kshim.partitions.durability import FsyncPolicy
from tests.simulation.durability.broken import DEFECTS
from tests.simulation.durability.world import Run, run

STEPS = 300
SEEDS = 6
MANY_SEEDS = 1_000
MOST_SEEDS = 150


def lives(policy: FsyncPolicy, seeds: int, folder: Path) -> Run | None:
    """The first life in which something goes wrong."""
    for seed in range(seeds):
        path = folder / str(seed)
        path.mkdir()
        found = run(seed, STEPS, policy, path)
        if found.violation is not None:
            return found
    return None


@pytest.mark.parametrize("policy", get_args(FsyncPolicy))
def test_nothing_is_lost_that_was_promised(policy: FsyncPolicy, tmp_path: Path) -> None:
    assert lives(policy, SEEDS, tmp_path) is None


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("policy", get_args(FsyncPolicy))
def test_nothing_is_lost_that_was_promised_in_many_lives(policy: FsyncPolicy, tmp_path: Path) -> None:
    assert lives(policy, MANY_SEEDS, tmp_path) is None


def test_a_seed_is_the_same_life_again(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert run(3, STEPS, "always", tmp_path / "one") == run(3, STEPS, "always", tmp_path / "two")


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_is_found(name: str, tmp_path: Path) -> None:
    policy, broken = DEFECTS[name]
    with broken():
        found = lives(policy, MOST_SEEDS, tmp_path)
    assert found is not None, f"{name}: not found in {MOST_SEEDS} seeds"
