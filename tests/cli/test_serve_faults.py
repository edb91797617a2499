"""`kshim serve --faults FILE`: rules in force from the start, each firing in the log; a file that is wrong keeps it from starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from tests.cli.process import Kshim, run

RULE = """
[[fault]]
on = "Heartbeat"
match = { group = "billing" }
do = { error = "COORDINATOR_LOAD_IN_PROGRESS" }
when = "once"
"""


def test_the_rules_of_a_file_are_in_force_from_the_start(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(RULE)
    with Kshim(tmp_path / "stderr", "--listen=127.0.0.1:0", f"--faults={file}") as kshim:
        client = Client(*kshim.address, client_id="test", timeout_s=20)
        beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
        codes = [client.ask(beat, 4).error_code for _ in range(2)]
        client.close()
        assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID]
        assert f"1 fault of {file} is in force" in kshim.log
        assert (
            "Injected fault: Heartbeat: error COORDINATOR_LOAD_IN_PROGRESS (firing 1) on Heartbeat v4 of test at 127.0.0.1 "
            "(group billing, member m)"
        ) in kshim.log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on = 1\n", "the file must hold tables headed [[fault]], one for each rule; it has on"),
        (RULE + RULE.replace("once", "twice"), 'fault 2: "when" says twice; it needs'),
        (RULE.replace("COORDINATOR_LOAD_IN_PROGRESS", "MESSAGE_TOO_LARGE"), "Heartbeat does not answer MESSAGE_TOO_LARGE"),
        (RULE.replace("group", "broker = 7, group"), "there is no broker 7: the ids are 1"),
        ("\xff", "is not UTF-8"),
        (None, "cannot read"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_keeps_it_from_starting(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "faults.toml"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    done = run("serve", "--listen=127.0.0.1:0", f"--faults={file}")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
