"""A page as its reader follows it: each block in its order, in one folder, with one broker at a time."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.cli.process import COMMAND, Kshim
from tests.docs.blocks import all_blocks

BOOTSTRAP = "127.0.0.1:9092"
"""What the pages write; the broker takes a free port instead."""
CONTROL = "127.0.0.1:9080"
"""The same for its HTTP interface."""
TIMEOUT_S = 120
_FILE_NAME = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
_PRINTED = re.compile(r"^ *(?:print|System\.out\.println|console\.log)\(.*\);?  ?(?:#|//) (.*)$", re.MULTILINE)


class Done(NamedTuple):
    """What a command printed to stdout, and how it ended."""

    command: str
    stdout: str
    code: int


class Session:
    """Plays the blocks of a page.

    A block that begins with a file name in a comment is written to that file. A block of Python without one is run. Of
    a block of shell commands each line is run; `kshim serve` stays until the next one, or until the session ends.
    `programs` are commands in place of those that a page names, e.g. a `java` that is not on the PATH; `ignored` are
    beginnings of commands that need the network.
    """

    def __init__(
        self,
        folder: Path,
        *,
        programs: Mapping[str, list[str]] | None = None,
        ignored: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.folder = folder
        self.bootstrap = BOOTSTRAP
        self.control = CONTROL
        self.done: list[Done] = []
        self._timeout_s = timeout_s
        self._broker: Kshim | None = None
        self._programs = {"python": [sys.executable], "kshim": [COMMAND], **(programs or {})}
        self._ignored = ("python -m pip install", "make ", ".venv/bin/pytest", *ignored)
        self._environment = None if environment is None else dict(environment)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the broker that runs, as Ctrl-C does."""
        if self._broker is not None:
            self._broker.__exit__(None, None, None)
            self._broker = None

    def play(self, page: Path) -> None:
        """Play the whole page. Raises AssertionError where a command fails or prints something else."""
        for language, text in all_blocks(page):
            name = _FILE_NAME.match(text)
            if language == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    self.run_command(line)
            elif name is not None:
                self.write(name[1], text)
            elif language == "python":
                self.run_snippet(text)

    def write(self, name: str, text: str) -> None:
        """Make a file of the session's folder."""
        (self.folder / name).write_text(text.replace(BOOTSTRAP, self.bootstrap))

    def run_command(self, line: str) -> None:
        """Run one line of a shell block."""
        if not line or line.startswith(("#", *self._ignored)):
            return
        program, *arguments = shlex.split(line)
        if (program, arguments[:1]) == ("kshim", ["serve"]):
            self._serve(arguments[1:])
            return
        arguments = [
            argument.replace(BOOTSTRAP, self.bootstrap).replace(CONTROL, self.control) for argument in arguments
        ]
        self._run(line, [*self._programs.get(program, [program]), *arguments])

    def run_snippet(self, text: str) -> None:
        """Run a block of Python; it prints what its comments say."""
        if self._broker is None and BOOTSTRAP in text:
            self._serve(["--listen", BOOTSTRAP, "--topic", "orders:3"])
        expected = _PRINTED.findall(text)
        assert expected, f"a snippet that prints nothing:\n{text}"
        self._run("python", [sys.executable, "-c", text.replace(BOOTSTRAP, self.bootstrap)])
        assert self.done[-1].stdout.splitlines() == expected

    def _serve(self, options: list[str]) -> None:
        self.stop()
        # Its ports are free ones, and its files are in the session's folder.
        ports = (BOOTSTRAP, "127.0.0.1:0"), (CONTROL, "127.0.0.1:0"), (":9093", ":0")
        for written, free in ports:
            options = [option.replace(written, free) for option in options]
        self._broker = Kshim(self.folder / "log", *options, folder=self.folder)
        self.bootstrap = self._broker.bootstrap
        assert self.bootstrap, self._broker.log
        found = re.search(r"Control over HTTP on http://(\S+)", self._broker.log)
        self.control = CONTROL if found is None else found[1]

    def _run(self, line: str, command: list[str]) -> None:
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=self._timeout_s,
            check=False,
        )
        assert ended.returncode == 0, f"{line} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        self.done.append(Done(line, ended.stdout, ended.returncode))
