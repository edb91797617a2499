"""Runs of pytest inside a test, with the plugin as every project gets it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

from kshim.pytest_plugin.log_tail import LOGGERS

ROOMS = ("broker", "coordinator", "faults", "harness", "history", "partitions", "server", "storage", "testing")

# A run inside forgets the modules that it has imported. Those of the broker would be there twice.
for package in ("kshim_protocol", *(f"kshim.{room}" for room in ROOMS)):
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def _loggers_of_their_own() -> Iterator[None]:
    """Hide that the tests around these may use the plugin, too: its filter keeps records from whatever comes after it."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger, logger.level, logger.filters) for logger in loggers]
    for logger in loggers:
        logger.filters = []
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level, filters in before:
        logger.filters = filters
        logger.setLevel(level)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, _loggers_of_their_own: None) -> Run:
    """`run(source, *arguments)`: write a file of tests and run it, with every warning an error."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio -p no:schemathesis -p no:randomly -W error")
    # Two files of the same name and size, written in the same second, would be taken for one by what pytest keeps of it.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run_tests(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(*arguments)

    return run_tests
