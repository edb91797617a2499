"""CRC-32C (Castagnoli) in C, from the package crc32c."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _c_function() -> Callable[[bytes | memoryview, int], int] | None:
    """The package's extension module without its `__init__`, which takes 14 ms to look up its own version."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "crc32c", None)


def _load() -> Callable[..., int]:
    if (function := _c_function()) is None:
        import crc32c as package

        function = package.crc32c
    return function


crc32c: Callable[..., int] = _load()
"""`crc32c(data, crc=0) -> int`: the CRC of `data`, which may be bytes or a memoryview, continuing from `crc`."""
