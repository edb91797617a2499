"""What mypy must say about tables and about code that uses them: lines that must fail, lines that must not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.codec import codec
from kshim_protocol.schema import Request, Struct, array, boolean, bytes_, int32, int64, message, string, struct, struct_, uuid

@struct
class Part(Struct):
    name: str = string("0+")

heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
"""

MUST_FAIL = {
    # rows
    'x: str = int32("0+")': "assignment",
    'x: int = string("0+")': "assignment",
    'x: bytes = string("0+")': "assignment",
    'x: str = bytes_("0+")': "assignment",
    'x: str = string("0+", nullable="0+")': "assignment",
    'x: bytes = bytes_("0+", nullable="1+")': "assignment",
    'x: int | None = int32("0+", default=None)': "arg-type",
    'x: int = int32("0+", nullable="0+")': "call-arg",
    'x: str = string("0+", default=None)': "call-overload",
    'x: int = int64("0+", default="7")': "arg-type",
    "x: int = int32(0)": "arg-type",
    'x: tuple[str, ...] = array("int32", "0+")': "assignment",
    'x: tuple[int, ...] = array(Part, "0+")': "assignment",
    'x: tuple[Part, ...] = array(Part, "0+", nullable="0+")': "assignment",
    'x: tuple[str, ...] = array("text", "0+")': "call-overload",
    'x: Part = struct_(Part, "0+", nullable="0+")': "assignment",
    'x: tuple[str, ...] = array(str, "0+")': "type-var",
    # use
    "heartbeat.generation_id = 2": "misc",
    "heartbeat.generation": "attr-defined",
    'HeartbeatRequest(group_id="g", generation_id=1)': "call-arg",
    'HeartbeatRequest("g", 1, "m")': "call-arg",
    'HeartbeatRequest(group_id="g", generation_id="1", member_id="m")': "arg-type",
    'HeartbeatRequest(group_id="g", generation_id=1, member_id=None)': "arg-type",
    "codec(JoinGroupRequest, 9).build(heartbeat)": "arg-type",
    "codec(HeartbeatRequest, 4).parse('text')": "arg-type",
    "r1: JoinGroupRequest = codec(HeartbeatRequest, 4).parse(b'')[0]": "assignment",
    "r2: str = heartbeat.error_response(ErrorCode.NONE, 4)": "assignment",
    "heartbeat.error_response(16, 4)": "arg-type",
    "Request()": "abstract",
}
"""A line, and the mypy code it must be reported with (rows are checked inside a class)."""

MUST_PASS = [
    'x: str = string("0+")',
    'x: str | None = string("0+", nullable="1+", default=None)',
    'x: str = string("3+", default="", ignorable=True)',
    'x: bytes | None = bytes_("0+", nullable="0+", tag=1)',
    'x: bytes = uuid("0+")',
    'x: bool = boolean("0+", default=True)',
    'x: tuple[Part, ...] = array(Part, "0+")',
    'x: tuple[Part, ...] | None = array(Part, "0+", nullable="0+")',
    'x: tuple[int, ...] = array("int32", "0+", default=())',
    'x: Part | None = struct_(Part, "0+", nullable="0+", default=None)',
    "r3: HeartbeatResponse = heartbeat.error_response(ErrorCode.NONE, 4)",
    "r4: HeartbeatRequest = codec(HeartbeatRequest, 4).parse(b'')[0]",
    "r5: bytes = codec(HeartbeatRequest, 4).build(heartbeat)",
    "r6: str | None = heartbeat.group_instance_id",
]


def program(lines: list[str]) -> tuple[str, dict[int, str]]:
    """A module of all lines, and which stands in which line of it. Rows get a class around them."""
    text = PREAMBLE.splitlines()
    places = {}
    for n, line in enumerate(lines):
        is_row = line.startswith("x: ")
        if is_row:
            text += ["@struct", f"class C{n}(Struct):"]
        text.append(f"    {line}" if is_row else line)
        places[len(text)] = line
    return "\n".join(text) + "\n", places


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Line -> codes that mypy reports for it. One run of mypy for all lines."""
    text, places = program([*MUST_FAIL, *MUST_PASS])
    directory = tmp_path_factory.mktemp("typing")
    path = directory / "lines.py"
    path.write_text(text)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(directory), str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(root / "protocol"), "PATH": ""},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, set[str]] = {line: set() for line in places.values()}
    for match in re.finditer(r"lines\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE):
        assert int(match[1]) in places, match[0]
        found[places[int(match[1])]].add(match[2])
    return found


@pytest.mark.parametrize(("line", "code"), MUST_FAIL.items(), ids=list(MUST_FAIL))
def test_mypy_refuses(line: str, code: str, reported: dict[str, set[str]]) -> None:
    assert code in reported[line]


@pytest.mark.parametrize("line", MUST_PASS)
def test_mypy_accepts(line: str, reported: dict[str, set[str]]) -> None:
    assert reported[line] == set()
