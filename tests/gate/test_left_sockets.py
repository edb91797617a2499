"""The plugin that collects the sockets that others leave, in a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAK = """
import socket

def test_leaves_a_socket_to_the_garbage_collector():
    holder = {"socket": socket.socket()}
    holder["itself"] = holder
"""
COLLECT = """
import gc

def test_collects():
    gc.collect()
"""


@pytest.mark.parametrize(
    ("leaking", "collecting", "failed"),
    [
        pytest.param("tests/pipeline", "tests/zoo", 0, id="by another library in a test that uses none"),
        pytest.param("tests/pipeline", "tests/server", 0, id="by another library before a test of our own sockets"),
        pytest.param("tests/server", "tests/server", 1, id="by us"),
    ],
)
def test_a_socket_that_is_left_fails_a_test_only_if_it_was_left(
    pytester: pytest.Pytester, leaking: str, collecting: str, failed: int
) -> None:
    for name, text in {f"{leaking}/test_a.py": LEAK, f"{collecting}/test_b.py": COLLECT}.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    plugins = ("-p", "tests.gate.left_sockets", "-p", "no:randomly", "-p", "no:asyncio", "-o", f"pythonpath={ROOT}")
    warnings = ("-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning")
    result = pytester.runpytest_subprocess(*plugins, *warnings, "tests")
    result.assert_outcomes(passed=2 - failed, failed=failed)
