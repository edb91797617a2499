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
OPTIONS = (
    *("-p", "tests.gate.left_sockets", "-p", "no:randomly", "-p", "no:asyncio", "-o", f"pythonpath={ROOT}"),
    *("-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning"),
)
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
    result = pytester.runpytest_subprocess(*OPTIONS, "tests")
    result.assert_outcomes(passed=2 - failed, failed=failed)


@pytest.mark.parametrize(("leaking", "is_told"), [("tests/pipeline", False), ("tests/server", True)])
def test_a_socket_that_the_last_test_has_left_fails_the_run_only_if_it_is_ours(
    pytester: pytest.Pytester, leaking: str, is_told: bool
) -> None:
    path = pytester.path / leaking / "test_a.py"
    path.parent.mkdir(parents=True)
    path.write_text(LEAK)
    result = pytester.runpytest_subprocess(*OPTIONS, "tests")
    result.assert_outcomes(passed=1)
    assert (result.ret != 0) == is_told
