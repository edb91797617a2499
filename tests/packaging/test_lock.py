"""The lock file pins, by hashes, what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.checkout import ROOT


class Pin(NamedTuple):
    """One package as the lock file has it; with markers there may be several of one name."""

    requirement: Requirement
    hashes: list[str]


def pins_of(lock: str) -> list[Pin]:
    entries = re.split(r"(?<!\\)\n", lock.strip())
    parts = [re.split(r"\s*\\\n\s*--hash=", entry) for entry in entries if not entry.startswith("#")]
    return [Pin(Requirement(requirement), hashes) for requirement, *hashes in parts]


def stale(required: list[str], pins: list[Pin]) -> list[str]:
    """The requirements that no pin meets."""
    versions: dict[str, list[str]] = {}
    for pin in pins:
        (specifier,) = pin.requirement.specifier
        versions.setdefault(canonicalize_name(pin.requirement.name), []).append(specifier.version)
    found = []
    for each in map(Requirement, required):
        pinned = versions.get(canonicalize_name(each.name), [])
        if not pinned or not all(each.specifier.contains(version) for version in pinned):
            found.append(str(each))
    return found


def required_by_the_project() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    return [each for each in (*project["dependencies"], *extras) if Requirement(each).name != project["name"]]


@pytest.fixture(scope="module")
def pins() -> list[Pin]:
    return pins_of((ROOT / "tests/requirements/lock.txt").read_text())


def test_it_has_every_requirement_of_the_project(pins: list[Pin]) -> None:
    assert stale(required_by_the_project(), pins) == [], "`make lock` brings it up to date"


def test_every_package_has_hashes(pins: list[Pin]) -> None:
    assert [
        pin.requirement.name for pin in pins if not any(map(re.compile(r"sha256:[0-9a-f]{64}").fullmatch, pin.hashes))
    ] == []


def test_it_says_nothing_of_where_packages_come_from() -> None:
    assert not re.search(
        r"https?://|--(extra-)?index-url|--find-links", (ROOT / "tests/requirements/lock.txt").read_text()
    )


@pytest.mark.parametrize("change", ["trio>=99", "absent>=1"])
def test_a_change_of_the_project_makes_it_stale(change: str, pins: list[Pin]) -> None:
    assert stale(["trio>=0.30", change], pins) == [change]
