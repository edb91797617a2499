"""The recipes of docs/testing/time.md, as they stand there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from integration.docs.test_other_languages import compiling_java
from integration.support.fixtures import available
from integration.support.jars import classpath
from tests.docs.blocks import DOCS, blocks
from tests.docs.session import Session

PATIENCE_S = 280
"""A JVM that compiles first, on a busy machine."""
PAGE = DOCS / "testing" / "time.md"


def test_the_recipes_for_python_clients(tmp_path: Path) -> None:
    with Session(tmp_path, ignored=("java ",)) as session:
        session.play(PAGE)
    assert [re.findall(r"(\d+) passed", done.stdout) for done in session.done] == [["5"], ["1"]]


@pytest.mark.java
@pytest.mark.timeout(400)
def test_the_recipe_for_java(tmp_path: Path) -> None:
    found = available(compiling_java)
    (tmp_path / "lib").mkdir()
    for jar in available(classpath).split(os.pathsep):
        (tmp_path / "lib" / Path(jar).name).symlink_to(jar)
    (program,) = blocks(PAGE, "java")
    command = next(line for line in blocks(PAGE, "sh")[-1].splitlines() if line.startswith("java "))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with Session(tmp_path, programs={"java": [found]}, environment=environment, timeout_s=PATIENCE_S) as session:
        session.write("SessionExpiry.java", program)
        session.run_command(command)
    expected = re.findall(r"System\.out\.println\(.*\); // (.*)$", program, re.MULTILINE)
    assert session.done[-1].stdout.splitlines() == expected
