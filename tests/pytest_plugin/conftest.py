"""Runs of pytest inside a test, with the plugin as every project gets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kshim.testing  # noqa: F401  loaded once, and not anew by each run inside

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(source, *arguments)`: write a file of tests and run it, with every warning an error."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:schemathesis -p no:randomly -W error")

    def run_tests(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(*arguments)

    return run_tests
