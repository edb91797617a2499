"""The tutorials for Java, Go and Node.js: the files that they show, run by the commands that they show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.clients import franz_go, platformatic_kafka
from integration.support.fixtures import available
from integration.support.go import go, go_program
from integration.support.jars import classpath
from integration.support.java import java
from integration.support.node import node, node_program
from integration.support.unavailable import Unavailable
from tests.docs.blocks import DOCS, blocks
from tests.docs.session import Session

TUTORIALS = DOCS / "tutorials"
JAVA_TIMEOUT_S = 60


@pytest.fixture
def environment() -> dict[str, str]:
    """With `kshim` on the PATH, as the pages ask for."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def compiling_java() -> str:
    """A `java` that runs source files. Raises Unavailable for one without a compiler."""
    found = java()
    command = [found, "--list-modules"]
    modules = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False)
    if "jdk.compiler" not in modules.stdout:
        raise Unavailable(f"{found} has no compiler")
    return found


@pytest.mark.java
def test_java(tmp_path: Path, environment: dict[str, str]) -> None:
    found = available(compiling_java)
    page = TUTORIALS / "testing-java.md"
    (tmp_path / "lib").mkdir()
    for jar in available(classpath).split(os.pathsep):
        (tmp_path / "lib" / Path(jar).name).symlink_to(jar)
    with Session(tmp_path, programs={"java": [found]}, environment=environment) as session:
        session.play(page)
    (program,) = blocks(page, "java")
    expected = re.findall(r"System\.out\.println\(.*\); // (.*)$", program, re.MULTILINE)
    assert session.done[-1].stdout.splitlines() == expected


@pytest.mark.timeout(900)  # the first run compiles the standard library
@pytest.mark.long
def test_go(tmp_path: Path, environment: dict[str, str]) -> None:
    found = available(go)
    driver = Path(franz_go.__file__).parent
    available(lambda: go_program(driver))  # its modules are there
    for name in ("go.mod", "go.sum"):
        shutil.copy(driver / name, tmp_path)
    environment |= {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off"}
    ignored = ("go mod ", "go get ")
    programs = {"go": [found]}
    with Session(tmp_path, programs=programs, ignored=ignored, environment=environment, timeout_s=600) as session:
        session.play(TUTORIALS / "testing-go.md")
    assert session.done[-1].stdout.startswith("ok ")


def test_node(tmp_path: Path, environment: dict[str, str]) -> None:
    _, driver = available(lambda: node_program(Path(platformatic_kafka.__file__).parent, "driver.js"))
    (tmp_path / "node_modules").symlink_to(Path(driver).parent / "node_modules")
    with Session(tmp_path, programs={"node": [node()]}, ignored=("npm ",), environment=environment) as session:
        session.play(TUTORIALS / "testing-node.md")
    assert "pass 1" in session.done[-1].stdout
