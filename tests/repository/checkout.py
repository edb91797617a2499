"""The files of this checkout, as the tests about it read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_SOURCE_ROOTS = ("shim", "protocol", "tests", "integration", "bench")


def python_files(*folders: str) -> Iterator[Path]:
    """All Python files below the folders given, or below all that hold code, sorted."""
    for folder in folders or _SOURCE_ROOTS:
        assert (ROOT / folder).is_dir(), f"no folder {folder}"
        yield from sorted((ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    """The path below the checkout, with slashes."""
    return path.relative_to(ROOT).as_posix()
