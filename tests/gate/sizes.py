"""`python -m tests.gate.sizes`: lines of each source root and room, and the longest files and functions.

A report for people. Nothing fails because of a number in it; ruff's complexity rules are what is enforced.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shim/kshim", "protocol/kshim_protocol", "pipeline/kshim_pipeline", "tests", "integration", "bench")
MESSAGE_TABLES = "protocol/kshim_protocol/messages/"
"""As long as the protocol is; counted, but not listed among the longest."""


class Size(NamedTuple):
    """How many lines something has, and where it stands."""

    lines: int
    where: str


def python_files(root: Path) -> dict[str, str]:
    """The text of every Python file below `PACKAGES`, by its path below the root."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }


def rooms(files: dict[str, str]) -> dict[str, dict[str, list[int]]]:
    """For each package its rooms, the folders directly below it, and the lines of each file; `.` is the package's own.

    A package without rooms has `.` only.
    """
    found: dict[str, dict[str, list[int]]] = {}
    for path, text in files.items():
        package = next(package for package in PACKAGES if path.startswith(f"{package}/"))
        room, slash, _ = path.removeprefix(f"{package}/").partition("/")
        found.setdefault(package, {}).setdefault(room if slash else ".", []).append(len(text.splitlines()))
    return found


def functions(path: str, source: str) -> Iterator[Size]:
    """Every function of a module, nested ones and methods included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield Size(node.end_lineno - node.lineno + 1, f"{path}:{node.lineno} {node.name}")


def report(files: dict[str, str], longest: int) -> Iterator[str]:
    """The lines to print."""
    yield f"{'':<32}{'modules':>8}{'lines':>9}"
    everything: list[int] = []
    for package, found in rooms(files).items():
        lines = [count for room in found.values() for count in room]
        everything += lines
        yield _row(package, lines)
        yield from (_row(f"    {room}", found[room]) for room in sorted(found, key=lambda room: -sum(found[room])))
    yield _row("total", everything)
    written = {path: text for path, text in files.items() if not path.startswith(MESSAGE_TABLES)}
    yield from _listed("longest files", (Size(len(text.splitlines()), path) for path, text in written.items()), longest)
    bodies = (function for path, text in written.items() for function in functions(path, text))
    yield from _listed("longest functions", bodies, longest)


def _row(name: str, lines: list[int]) -> str:
    return f"{name:<32}{len(lines):>8,}{sum(lines):>9,}"


def _listed(title: str, sizes: Iterable[Size], longest: int) -> Iterator[str]:
    yield ""
    yield f"{title} (the message tables left out)"
    for size in sorted(sizes, key=lambda size: (-size.lines, size.where))[:longest]:
        yield f"{size.lines:>8,}  {size.where}"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.sizes", description=__doc__)
    parser.add_argument("--longest", type=int, default=15, metavar="N", help="how many files and functions to list")
    options = parser.parse_args()
    print(*report(python_files(ROOT), options.longest), sep="\n")


if __name__ == "__main__":
    main()
