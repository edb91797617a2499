"""`kshim` as a process, for what only a process can show: its streams, signals and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

TIMEOUT_S = 60
COMMAND = str(Path(sys.executable).with_name("kshim"))
SERVE = (COMMAND, "serve")


class Kshim:
    """A running `kshim serve`; `bootstrap` is the first line it wrote. Leaving the block kills what still runs."""

    def __init__(
        self,
        log: Path,
        *options: str,
        environment: dict[str, str] | None = None,
        command: tuple[str, ...] = SERVE,
        folder: Path | None = None,
    ) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*command, *options],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environment,
                cwd=folder,
            )
        assert self.process.stdout is not None
        self.bootstrap = self.process.stdout.readline().rstrip("\n")

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def log(self) -> str:
        """What it wrote to stderr so far."""
        return self._log.read_text()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; returns the exit code and what followed the first line on stdout."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, rest

    def __enter__(self) -> Kshim:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """What is started meanwhile hears SIGINT. What a shell runs in the background, these tests perhaps, ignores it, and so would
    their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `kshim` to its end, with more variables than this process has."""
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )
