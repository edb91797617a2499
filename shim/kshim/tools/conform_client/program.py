"""The program that is judged: its processes, what it writes, how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from typing import Final

import trio

PLACEHOLDERS: Final = ("bootstrap", "topic", "group", "instance")
STOP_TIMEOUT_S = 5.0
_TAIL_BYTES = 4_000
_BRACED: Final = re.compile(r"(?P<text>\{\{\w+\}\})|(?<!\$)\{(?P<name>[A-Za-z_]\w*)\}")
_IS_POSIX = os.name == "posix"


class CommandProblem(Exception):
    """The command cannot be run; `str(error)` says why."""


class Program:
    """One run of the user's command, in a process group of its own, so that what it starts ends with it."""

    def __init__(self, command: str, values: Mapping[str, str], on_exit: Callable[[], None]) -> None:
        """`values` by placeholder; each is also an environment variable. `on_exit` is called when it ends by itself."""
        self._command = command
        self._values = values
        self._on_exit = on_exit
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed by stop()
        self._process: trio.Process | None = None
        self.exit_code: int | None = None
        """Once it has ended by itself; negative: minus the number of the signal."""

    @property
    def is_running(self) -> bool:
        """True between its start and its end."""
        return self._process is not None and self.exit_code is None

    async def start(self, nursery: trio.Nursery) -> None:
        """Start it. Raises CommandProblem."""
        words = command_words(self._command, self._values)
        names = {variable_of(placeholder): value for placeholder, value in self._values.items()}
        try:
            self._process = await trio.lowlevel.open_process(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **names},
                start_new_session=_IS_POSIX,
            )
        except OSError as error:
            raise CommandProblem(f"cannot start {words[0]}: {error.strerror}") from None
        nursery.start_soon(self._watch, self._process)

    async def _watch(self, process: trio.Process) -> None:
        self.exit_code = await process.wait()
        self._on_exit()

    async def stop(self) -> None:
        """End all of its processes, also where the caller is cancelled: SIGTERM, and SIGKILL after a while. Idempotent."""
        process = self._process
        if process is None:
            return
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                self._signal(process, signal.SIGTERM)
                with trio.move_on_after(STOP_TIMEOUT_S):
                    await process.wait()
            # What it has started may still be there when it has ended.
            self._signal(process, signal.SIGKILL if _IS_POSIX else signal.SIGTERM)
            await process.wait()

    def close(self) -> None:
        """Free what is kept. Its processes have ended."""
        self._output.close()

    def last_output(self, line_count: int = 8) -> list[str]:
        """The end of what it wrote to stdout and stderr."""
        size = os.fstat(self._output.fileno()).st_size
        start = max(0, size - _TAIL_BYTES)
        # By position, for the file offset is shared with the process.
        text = os.pread(self._output.fileno(), _TAIL_BYTES, start).decode(errors="replace")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return lines[-line_count:]

    def _signal(self, process: trio.Process, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if _IS_POSIX:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)


def command_words(command: str, values: Mapping[str, str]) -> list[str]:
    """The command as words, with placeholders filled in: each of PLACEHOLDERS has a value. Raises CommandProblem.

    Doubled braces stand for single ones.

    >>> command_words("python 'my consumer.py' {topic} {{topic}}", {"topic": "orders"})
    ['python', 'my consumer.py', 'orders', '{topic}']
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandProblem(f"{command!r} cannot be split into words: {error}") from None
    if not words:
        raise CommandProblem("the command is empty")

    def filled_in(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found["text"][1:-1]
        if name not in values:
            known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise CommandProblem(
                f"{{{name}}} in --command is not a placeholder: there are {known}. If it is a text of the command itself, "
                f"double its braces: {{{{{name}}}}}"
            )
        return values[name]

    return [_BRACED.sub(filled_in, word) for word in words]


def variable_of(placeholder: str) -> str:
    """The environment variable that has the same value.

    >>> variable_of("bootstrap"), variable_of("instance")
    ('KSHIM_BOOTSTRAP_SERVERS', 'KSHIM_INSTANCE')
    """
    return "KSHIM_BOOTSTRAP_SERVERS" if placeholder == "bootstrap" else f"KSHIM_{placeholder.upper()}"
