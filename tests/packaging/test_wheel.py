"""What a release uploads: one wheel and one sdist, complete, and the same from wherever they are built."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import Built, Image, build
from tests.repository.checkout import ROOT

pytestmark = pytest.mark.packaging

ROOTS = {"kshim": ROOT / "shim", "kshim_pipeline": ROOT / "pipeline", "kshim_protocol": ROOT / "protocol"}


def files_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_every_file_of_the_three_packages_and_nothing_else(built: Built) -> None:
    source = {
        path.relative_to(root).as_posix()
        for package, root in ROOTS.items()
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in files_of(built.wheel) if ".dist-info/" not in name}
    assert held == source
    assert "kshim/tools/scenario/scenarios/one_member_comes_and_goes.txt" in held
    assert {f"{package}/py.typed" for package in ROOTS} < held


def test_the_sdist_makes_the_same_wheel(built: Built, wheel_of_sdist: Path) -> None:
    assert files_of(wheel_of_sdist) == files_of(built.wheel)


def test_what_the_image_copies_makes_a_wheel(image: Image, tmp_path: Path) -> None:
    build(image.source, tmp_path, "wheel")
    (wheel,) = tmp_path.glob("*.whl")
    assert {name.split("/")[0] for name in files_of(wheel) if ".dist-info/" not in name} == {"kshim", "kshim_protocol"}
