"""What the suites need of a broker, whichever it is, and how a broker runs as a child process."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Broker(Protocol):
    """A broker in a process of its own, listening on loopback. Made stopped."""

    name: str
    """Which broker it is: `kshim` or `kafka`."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, the same after every restart. Known once started."""
        ...

    def start(self) -> None:
        """Return when clients can connect and groups can be joined; again after `stop` or `kill`: with its old data."""
        ...

    def stop(self) -> None:
        """Ask it to end, and wait until it has; it must end cleanly. No effect when it does not run."""
        ...

    def kill(self) -> None:
        """End it at once, as a crash does. No effect when it does not run."""
        ...


class Child:
    """A process whose output goes to a file.

    stdout is the file's too unless `stdout` says otherwise.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        *,
        stdout: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command`, appending its output to `log`. `environment` None: ours."""
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command,
                env=environment,
                bufsize=0,  # so that a reader of stdout may wait with select
                stdin=subprocess.DEVNULL,
                stdout=file if stdout is None else stdout,
                stderr=file,
            )

    def require_running(self) -> None:
        """Raise AssertionError, with the end of its output, if the process has ended."""
        if (code := self.process.poll()) is not None:
            raise AssertionError(f"{self.process.args!r} ended with {code}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines of the output so far."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def terminate(self, *, timeout_s: float) -> int:
        """Send SIGTERM and return the exit code; raises AssertionError if the process does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running {timeout_s} s after SIGTERM:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.process.kill()
        self.process.wait()


class Deadline:
    """A point in time by which something must have happened, for loops that look at a condition until it holds."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s` seconds from now."""
        self.timeout_s = timeout_s
        self._at = time.monotonic() + timeout_s

    def check(self, what: str) -> None:
        """Raise AssertionError naming `what` if the time is over."""
        if time.monotonic() > self._at:
            raise AssertionError(f"not within {self.timeout_s} s: {what}")

    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._at - time.monotonic())
