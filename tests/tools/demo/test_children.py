"""The demo's processes: heard, stopped, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from kshim.tools.demo.children import Child, Children

REPORT_AND_WAIT = 'import sys; print(\'{"kind": "here"}\', flush=True); sys.stdin.read(); print(\'{"kind": "end"}\')'
STUBBORN = "import time; print('{}', flush=True); time.sleep(600)"
PARENT = """
import os, sys
from kshim.tools.demo.children import Children
children = Children()
child = children.start("c", ["-m", "kshim.tools.demo.lifeline", sys.executable, "-c", sys.argv[1]])
children.heard.get()
print(child.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.stop()


def heard(children: Children) -> dict[str, object]:
    return children.heard.get(timeout=30)[1]


def start(children: Children, code: str) -> Child:
    return children.start("child", ["-c", code])


def test_json_lines_of_a_child_are_heard_and_others_skipped(children: Children) -> None:
    start(children, "print('no json'); print('[1]'); print('{\"kind\": 1}', flush=True); input()")
    assert heard(children) == {"kind": 1}


def test_a_child_ends_by_itself_when_it_is_asked(children: Children) -> None:
    child = start(children, REPORT_AND_WAIT)
    assert heard(children) == {"kind": "here"}
    children.ask_to_end(child)
    assert heard(children) == {"kind": "end"}
    assert child.process.wait(30) == 0


def test_a_killed_child_is_gone_at_once(children: Children) -> None:
    child = start(children, STUBBORN)
    heard(children)
    child.kill()
    assert child.process.wait(30) == -signal.SIGKILL


def test_a_stubborn_child_is_killed_when_all_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshim.tools.demo.children.PATIENCE_S", 0.1)
    children = Children()
    child = start(children, STUBBORN)
    heard(children)
    children.stop()
    assert child.process.returncode == -signal.SIGKILL


def test_what_a_child_says_on_stderr_can_be_told(children: Children) -> None:
    child = start(children, "import sys; sys.exit('out of order')")
    child.process.wait(30)
    assert child.last_words() == "out of order"


def test_the_lifeline_passes_output_and_exit_code_on(children: Children) -> None:
    code = "import sys; print('{\"kind\": 7}', flush=True); sys.exit(5)"
    child = children.start("c", ["-m", "kshim.tools.demo.lifeline", sys.executable, "-c", code])
    assert heard(children) == {"kind": 7}
    assert child.process.wait(30) == 5


def test_a_child_ends_though_its_parent_was_killed() -> None:
    told = f"import os; print('{{\"pid\": 1}}', flush=True); {STUBBORN}"
    run = subprocess.run([sys.executable, "-c", PARENT, told], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL
    lifeline = int(run.stdout)
    deadline_s = time.monotonic() + 30
    while psutil.pid_exists(lifeline) and psutil.Process(lifeline).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline_s, "the lifeline outlived its parent"
        os.sched_yield()


def test_reports_are_json_with_the_time() -> None:
    code = "from kshim.tools.demo.reports import report; report('read', member='anna', first=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    report = json.loads(done.stdout)
    assert report.pop("at_ms") > 1_600_000_000_000
    assert report == {"kind": "read", "member": "anna", "first": 1}
