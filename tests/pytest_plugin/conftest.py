"""Runs of pytest inside a test, with the plugin as every project gets it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages

import pytest

ROOMS = ("broker", "coordinator", "faults", "harness", "history", "partitions", "server", "storage", "testing")

# A run inside forgets the modules that it has imported. Those of the broker would be there twice.
for package in ("kshim_protocol", *(f"kshim.{room}" for room in ROOMS)):
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(source, *arguments)`: write a file of tests and run it, with every warning an error."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio -p no:schemathesis -p no:randomly -W error")

    def run_tests(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(*arguments)

    return run_tests
