"""A driver: the process that does with one client library what a situation asks for."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 60.0
"""For a command without a time of its own: more than any client's default request timeout of 30 s."""
_CLOSE_TIMEOUT_S = 40.0
_CHUNK_BYTES = 1 << 16


class Unsupported(Exception):
    """The client cannot express what it was asked for; the text says why."""


class DriverError(Exception):
    """The client refused, or was refused: `name` is Kafka's constant where the error is Kafka's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Driver:
    """One process of a driver; commands go to it one at a time."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start it; its stderr goes to `log`."""
        self.log = log
        self._unread = b""
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                bufsize=0,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,  # a group of its own, to be killed and frozen as one
            )

    def call(self, do: str, *, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> dict[str, Any]:
        """The `ok` of its answer. Fields that are None are left out.

        Raises:
            DriverError: it answered with an error.
            Unsupported: its client cannot.
            AssertionError: no answer in time, or none at all.
        """
        self.send(do, **fields)
        return self.answer(do, timeout_s=timeout_s)

    def send(self, do: str, **fields: Any) -> None:
        """Ask, and leave the answer to `answer`: for drivers that work at the same time."""
        command = {"do": do, **{name: value for name, value in fields.items() if value is not None}}
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            raise AssertionError(f"the driver is gone before {do!r}:\n{self.log_tail()}") from None

    def answer(self, do: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """The answer to what `send` asked; `do` is for the error messages. Raises as `call` does."""
        answer = json.loads(self._line(do, timeout_s))
        if "ok" in answer:
            ok: dict[str, Any] = answer["ok"]
            return ok
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        assert "error" in answer, f"{do!r} was answered {answer!r}"
        raise DriverError(answer["error"], f"{do}: {answer.get('message', '')}")

    def freeze(self) -> None:
        """SIGSTOP: it stands still, and its connections stay."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, to all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """Let it end by itself, then make sure that it has."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_CLOSE_TIMEOUT_S)
        self.kill()

    def log_tail(self) -> str:
        """The last lines of its stderr."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _line(self, do: str, timeout_s: float) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no answer to {do!r} within {timeout_s} s:\n{self.log_tail()}"
            chunk = os.read(stdout.fileno(), _CHUNK_BYTES)
            assert chunk, f"the driver ended during {do!r}:\n{self.log_tail()}"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line
