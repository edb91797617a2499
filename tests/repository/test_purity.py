"""Protocol, coordinator, broker and faults are told the time and given their randomness; they touch no socket and never wait.

import-linter holds the directions between the rooms; this holds what the standard library offers out of these.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.checkout import python_files, relative

PURE = ("protocol", "shim/kshim/coordinator", "shim/kshim/broker", "shim/kshim/faults")

CLOCKS = {"time", "sched"}
RANDOMNESS = {"random", "secrets"}
INPUT_OUTPUT = {"socket", "ssl", "select", "selectors", "subprocess", "tempfile", "shutil"}
WAITING = {"asyncio", "threading", "queue", "concurrent", "multiprocessing", "trio"}
FORBIDDEN_MODULES = CLOCKS | RANDOMNESS | INPUT_OUTPUT | WAITING

FORBIDDEN_NAMES = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "os.urandom", "os.getrandom",
    "uuid.uuid1", "uuid.uuid4",
}  # fmt: skip
FORBIDDEN_CALLS = {"open", "input", "print"}


def impurities(source: str) -> Iterator[str]:
    """What of clock, randomness, input, output or waiting a module uses, each with its line."""
    for node in ast.walk(ast.parse(source)):
        for what in _impurity(node):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _impurity(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"import {name.name}" for name in names if name.name.partition(".")[0] in FORBIDDEN_MODULES)
        case ast.ImportFrom(module=str(module), level=0, names=names):
            if module.partition(".")[0] in FORBIDDEN_MODULES:
                yield f"from {module} import"
            yield from (
                f"from {module} import {name.name}" for name in names if f"{module}.{name.name}" in FORBIDDEN_NAMES
            )
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if f"{owner}.{attribute}" in FORBIDDEN_NAMES:
            yield f"{owner}.{attribute}"
        case ast.Attribute(value=ast.Attribute(attr=owner), attr=attribute):
            if f"{owner}.{attribute}" in FORBIDDEN_NAMES:
                yield f"{owner}.{attribute}"
        case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
            yield f"{name}()"
        case ast.Await() | ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith():
            yield "await"
        case _:
            pass


@pytest.mark.parametrize("folder", PURE)
def test_no_module_reads_a_clock_draws_randomness_or_waits(folder: str) -> None:
    paths = list(python_files(folder))
    assert paths, f"{folder} holds no module"
    found = [f"{relative(path)} {what}" for path in paths for what in impurities(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import random as r",
        "from time import monotonic",
        "from concurrent.futures import Future",
        "def f():\n    import socket",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
        "import os\nos.urandom(8)",
        "open('x')",
        "async def f(): pass",
        "async def f():\n    await g()",
    ],
)
def test_the_search_finds(source: str) -> None:
    assert list(impurities(source))


@pytest.mark.parametrize("source", ["import uuid\nuuid.UUID(int=0)", "now.mono_ms", "from kshim.server import x"])
def test_the_search_leaves_alone(source: str) -> None:
    assert list(impurities(source)) == []


def test_the_command_line_loads_tools_trio_and_codecs_only_when_used(tmp_path: Path) -> None:
    heavy = ["trio", "construct", "cramjam", "kafka", "kshim.tools", "kshim.server", "kshim.broker"]
    code = f"import kshim.cli.main, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
