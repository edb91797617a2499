"""A share group keeps every promise to its members, whatever happens to them, the disk and the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.share.broken import DEFECTS
from tests.simulation.share.world import Run, run

STEPS = 300
SEEDS = 12
MANY_SEEDS = 2_000
MOST_SEEDS = 300


def lives(seeds: int, folder: Path) -> Run | None:
    """The first life in which something goes wrong."""
    for seed in range(seeds):
        path = folder / str(seed)
        path.mkdir()
        found = run(seed, STEPS, path)
        if found.violation is not None:
            return found
    return None


def test_no_record_is_lost_and_none_is_given_to_two(tmp_path: Path) -> None:
    assert lives(SEEDS, tmp_path) is None


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_no_record_is_lost_and_none_is_given_to_two_in_many_lives(tmp_path: Path) -> None:
    assert lives(MANY_SEEDS, tmp_path) is None


def test_a_seed_is_the_same_life_again(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert run(3, STEPS, tmp_path / "one") == run(3, STEPS, tmp_path / "two")


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_is_found(name: str, tmp_path: Path) -> None:
    with DEFECTS[name]():
        found = lives(MOST_SEEDS, tmp_path)
    assert found is not None, f"{name}: not found in {MOST_SEEDS} seeds"
