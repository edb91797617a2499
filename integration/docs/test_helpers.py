"""The helpers of docs/examples/helpers for tests in other languages, with the tests beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.clients import franz_go, platformatic_kafka
from integration.support.fixtures import available
from integration.support.go import go, go_program
from integration.support.jars import KAFKA, JarSet
from integration.support.java import java
from integration.support.java_program import compile_java
from integration.support.node import node, node_program
from tests.docs.blocks import DOCS

HELPERS = DOCS / "examples" / "helpers"
JUNIT = JarSet("junit-1.13.4", Path(__file__).parent / "junit")
PATIENCE_S = 600
"""A JVM on a busy machine."""


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


@pytest.mark.java
@pytest.mark.timeout(900)
def test_junit(tmp_path: Path, environment: dict[str, str]) -> None:
    classpath = os.pathsep.join([available(lambda: JUNIT.classpath), available(lambda: KAFKA.classpath)])
    classes = tmp_path / "classes"
    sources = [HELPERS / "KshimExtension.java", HELPERS / "BillingTest.java"]
    available(lambda: compile_java(sources, classpath, classes))
    command = [
        available(java),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{classes}{os.pathsep}{classpath}",
    ]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", "--select-class=BillingTest"]
    assert "3 tests successful" in run([*command, "--disable-banner"], tmp_path, environment)


@pytest.mark.timeout(900)  # the first run compiles the standard library
@pytest.mark.long
def test_go(tmp_path: Path, environment: dict[str, str]) -> None:
    found = available(go)
    driver = Path(franz_go.__file__).parent
    available(lambda: go_program(driver))  # its modules are there
    for source in (driver / "go.mod", driver / "go.sum", HELPERS / "kshim.go", HELPERS / "billing_test.go"):
        shutil.copy(source, tmp_path)
    environment |= {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    assert run([found, "test", "./..."], tmp_path, environment).startswith("ok ")
