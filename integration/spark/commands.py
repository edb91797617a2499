"""`kshim pipeline` as a user starts it: a process of its own, with a JVM below it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from kshim_pipeline.report.stored import results_in

_KSHIM = str(Path(sys.executable).with_name("kshim"))
_TIMEOUT_S = 1_200


def run_pipeline(
    *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S
) -> str:
    """What it wrote to stdout. Raises AssertionError, with all it said, when it ends with another `code`."""
    return _run(arguments, code, environment, timeout_s).stdout


def refused(
    *arguments: str, code: int, environment: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S
) -> str:
    """The sentence with which it ends. Raises AssertionError, with all it said, when it ends with another `code`."""
    return _run(arguments, code, environment, timeout_s).stderr.splitlines()[-1]


class _Ended(NamedTuple):
    stdout: str
    stderr: str


def _run(arguments: Sequence[str], code: int, environment: Mapping[str, str] | None, timeout_s: float) -> _Ended:
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
    return _Ended(stdout, stderr)


def tables_in(results: Path) -> Path:
    """The directory of the newest tables that `analyse` published in `results`."""
    return results / results_in(str(results))[0].run


def tables(results: Path) -> dict[str, list[str]]:
    """Every table that was published in `results` by its name, rows in an order that does not depend on who wrote them."""
    run = tables_in(results)
    names = sorted(path.parent for path in run.rglob("_SUCCESS"))
    return {str(name.relative_to(run)): rows(name) for name in names}


def rows(table: Path) -> list[str]:
    """The rows of a table as JSON, sorted."""
    found: list[dict[str, Any]] = pq.read_table(table).to_pylist()
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in found)


class Pipeline:
    """A command that runs, with its JVM in a process group of its own so that both can be killed at once."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start it; its output goes to `log`."""
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [_KSHIM, "pipeline", *arguments],
                env={**os.environ, **(environment or {})},
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
