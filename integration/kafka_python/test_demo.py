"""`kshim demo` as a user sees it: the whole show, and Ctrl-C in the middle of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from integration.support.broker import Deadline
from tests.cli.process import hearing_ctrl_c

COMMAND = [str(Path(sys.executable).with_name("kshim")), "demo"]
WHOLE_SHOW_S = 120
LIVE_MODE_NEEDS = "a terminal of its own needs a POSIX system"


def test_without_a_terminal_it_tells_the_story_in_lines_and_ends_by_itself() -> None:
    environment = {**os.environ, "KSHIM_TOPICS": "not-in-the-demo:1", "KSHIM_LISTEN": "nowhere"}
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as demo:
        text, errors = demo.communicate(timeout=WHOLE_SHOW_S)
    assert (demo.returncode, errors) == (0, ""), text
    assert "\x1b" not in text
    reasons = re.findall(r"rebalance +begins: (.*)", text)
    assert reasons[0] == "anna joined"
    # In this order, whatever else the clients asked for in between.
    story = ["anna joined", "ben joined", "cleo joined", "the session of ben expired", "cleo left"]
    assert [reason for reason in reasons if reason in story] == story
    assert re.search(r"ben +is killed", text)
    assert re.search(r"ben crashed: its partitions had no reader for [5-9]\.\d s", text)
    written, read = re.findall(r"(\d+) records were written, (\d+) read", text)[0]
    assert written == read
    assert int(written) > 100


@pytest.mark.skipif(os.name != "posix", reason=LIVE_MODE_NEEDS)
def test_ctrl_c_ends_it_and_all_its_processes_and_gives_the_cursor_back() -> None:
    import pty

    terminal, end = pty.openpty()
    with hearing_ctrl_c():
        demo = subprocess.Popen(COMMAND, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    try:
        shown = _read_until(terminal, b"ben\x1b[0m joined")  # in the list of rebalances, which stays on the screen
        assert b"\x1b[?25l" in shown
        family = psutil.Process(demo.pid).children(recursive=True)
        assert len(family) >= 4, "a lifeline with its broker, a producer, two consumers"
        os.killpg(demo.pid, signal.SIGINT)  # to the whole group, as a terminal does it
        shown = _read_until(terminal, b"the demo was interrupted")
        assert b"\x1b[?25h" in shown
        assert demo.wait(30) == 130
        assert not [process for process in family if process.is_running()]
    finally:
        demo.kill()
        demo.wait()
        os.close(terminal)


def _read_until(terminal: int, what: bytes) -> bytes:
    deadline = Deadline(60)
    shown = b""
    while what not in shown:
        deadline.check(f"{what!r} is shown; so far {shown[-2000:]!r}")
        try:
            shown += os.read(terminal, 65536)
        except OSError as error:  # nobody has the terminal open any more
            raise AssertionError(f"it ended before {what!r} was shown; it showed {shown[-2000:]!r}") from error
    return shown
