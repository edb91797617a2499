"""Who imports whom among the modules and the rooms of the three packages, imports for types included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import grimp

PACKAGES = ("kshim", "kshim_protocol", "kshim_pipeline")
SPLIT = ("kshim.security",)
"""Rooms whose packages are shown one by one."""

Imports = Mapping[str, frozenset[str]]


@cache
def module_imports() -> Imports:
    """Of each module those that it imports."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {name: frozenset(graph.find_modules_directly_imported_by(name)) for name in sorted(graph.modules)}


def circles(imports: Imports) -> list[list[str]]:
    """The strongly connected components of more than one module: each is a circle, or some of them."""
    reached = {name: frozenset(_reachable(imports, name)) for name in imports}
    together = {frozenset({name, *(other for other in reached[name] if name in reached[other])}) for name in imports}
    return sorted(sorted(names) for names in together if len(names) > 1)


def _reachable(imports: Imports, name: str) -> Iterator[str]:
    seen, left = {name}, [name]
    while left:
        for other in imports[left.pop()]:
            if other not in seen:
                seen.add(other)
                left.append(other)
                yield other


def packages() -> dict[str, list[str]]:
    """The modules that stand directly in each package."""
    names = set(module_imports())
    parents = {name.rpartition(".")[0] for name in names}
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        if name not in parents and "." in name:
            found[name.rpartition(".")[0]].append(name)
    return found


def room_of(module: str) -> str:
    """The room a module is in: `kshim.broker`, `kshim.security.authorizer`, `kshim_protocol`."""
    parts = module.split(".")
    if parts[0] != "kshim" or len(parts) < 2:
        return parts[0]
    room = ".".join(parts[:2])
    return ".".join(parts[:3]) if room in SPLIT and len(parts) > 2 else room


@cache
def room_imports() -> Imports:
    """Of each room those that it imports. The package `kshim` and its `__main__` are no rooms."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in module_imports().items():
        room = room_of(module)
        found[room].update(room_of(other) for other in imported)
        found[room].discard(room)
    for name in ("kshim", "kshim.__main__", *SPLIT):
        found.pop(name, None)
    return {room: frozenset(others) for room, others in sorted(found.items())}


def reduced(imports: Imports) -> dict[str, list[str]]:
    """Without the imports that follow from others: if a imports b and b imports c, a -> c is left out."""
    return {
        room: sorted(other for other in others if not _is_implied(imports, others - {other}, other))
        for room, others in imports.items()
    }


def _is_implied(imports: Imports, through: Iterable[str], target: str) -> bool:
    return any(target in set(_reachable(imports, room)) for room in through)
