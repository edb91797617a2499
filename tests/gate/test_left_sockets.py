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


@pytest.mark.parametrize(("folder", "failed"), [("tests/pipeline", 0), ("tests/testing", 0), ("tests/broker", 1)])
def test_a_socket_that_another_library_left_fails_no_test_after_it(
    pytester: pytest.Pytester, folder: str, failed: int
) -> None:
    for name, text in {f"{folder}/test_a.py": LEAK, "tests/zoo/test_b.py": COLLECT}.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    plugins = ("-p", "tests.gate.left_sockets", "-p", "no:randomly", "-p", "no:asyncio", "-o", f"pythonpath={ROOT}")
    warnings = ("-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning")
    result = pytester.runpytest_subprocess(*plugins, *warnings, "tests")
    result.assert_outcomes(passed=2 - failed, failed=failed)
