"""The helpers of docs/examples/helpers for tests in other languages, with the tests beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.clients import platformatic_kafka
from integration.support.fixtures import available
from integration.support.node import node, node_program
from tests.docs.blocks import DOCS

HELPERS = DOCS / "examples" / "helpers"
PATIENCE_S = 280


@pytest.fixture
def environment() -> dict[str, str]:
    """With `kshim` on the PATH, as the helpers ask for."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command printed; it has to end well."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_node(tmp_path: Path, environment: dict[str, str]) -> None:
    _, driver = available(lambda: node_program(Path(platformatic_kafka.__file__).parent, "driver.js"))
    (tmp_path / "node_modules").symlink_to(Path(driver).parent / "node_modules")
    for name in ("kshim.mjs", "billing.test.mjs"):
        shutil.copy(HELPERS / name, tmp_path)
    assert "pass 3" in run([node(), "--test", "billing.test.mjs"], tmp_path, environment)
