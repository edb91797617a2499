"""`kshim pipeline` as a user starts it: a process of its own, with a JVM below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kshim_pipeline.report.stored import results_in

_KSHIM = str(Path(sys.executable).with_name("kshim"))
_TIMEOUT_S = 1_200


def run_pipeline(
    *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S
) -> str:
    """What it wrote to stdout. Raises AssertionError, with all it said, when it ends with another `code`."""
    command = subprocess.Popen(
        [_KSHIM, "pipeline", *arguments],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = command.communicate(timeout=timeout_s)
    except BaseException:
        os.killpg(command.pid, signal.SIGKILL)  # with its JVM, which holds the pipes
        command.communicate()
        raise
    assert command.returncode == code, f"{arguments} ended with {command.returncode}: {stdout}{stderr}"
    return stdout


def tables_in(results: Path) -> Path:
    """The directory of the newest tables that `analyse` published in `results`."""
    return results / results_in(str(results))[0].run


class Pipeline:
    """A command that runs, with its JVM in a process group of its own so that both can be killed at once."""

    def __init__(self, log: Path, *arguments: str) -> None:
        """Start it; its output goes to `log`."""
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [_KSHIM, "pipeline", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def require_running(self) -> None:
        """Raise AssertionError, with its output, if it has ended."""
        code = self.process.poll()
        assert code is None, f"{self.process.args!r} ended with {code}: {self._log.read_text()[-3_000:]}"

    def kill(self) -> None:
        """SIGKILL to Python and JVM alike, as when a machine goes down. No effect when it has ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
