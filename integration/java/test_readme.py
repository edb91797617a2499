"""The README's Java program, compiled by `java` itself and run as it stands there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.jars import classpath
from integration.support.java import java
from integration.support.unavailable import Unavailable
from tests.cli.process import Kshim
from tests.docs.blocks import README, blocks

TIMEOUT_S = 120


def compiling_java() -> str:
    """A `java` that runs source files. Raises Unavailable for one without a compiler."""
    found = java()
    modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if "jdk.compiler" not in modules.stdout:
        raise Unavailable(f"{found} has no compiler")
    return found


@pytest.mark.java
@pytest.mark.parametrize("snippet", blocks(README, "java"))
def test_the_java_snippet_prints_what_stands_beside_it(snippet: str, tmp_path: Path) -> None:
    command = available(lambda: [compiling_java(), "-cp", classpath()])
    expected = re.findall(r"System\.out\.println\(.*\); // (.*)$", snippet, re.MULTILINE)
    name = re.findall(r"^public class (\w+)", snippet, re.MULTILINE)[0]
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", "--topic=orders:3") as kshim:
        source = tmp_path / f"{name}.java"
        source.write_text(snippet.replace("127.0.0.1:9092", kshim.bootstrap))
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
