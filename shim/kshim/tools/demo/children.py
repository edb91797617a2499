"""The demo's child processes: started in a session of their own, heard line by line, never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any, Literal

PATIENCE_S = 4.0
_IS_POSIX = os.name == "posix"

Heard = tuple["Child", dict[str, Any]]


class Child:
    """One process. `errors` holds what it wrote to stderr where that is not what is listened to."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: IO[bytes] | None) -> None:
        self.name = name
        self.process = process
        self.errors = errors
        self.listener: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it and what it started at once, as a crash does."""
        if _IS_POSIX:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()

    def last_words(self) -> str:
        """The end of its stderr."""
        if self.errors is None:
            return ""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-2000:]

    def release(self) -> None:
        """Close the pipes, once what was in them is heard. It has ended before."""
        if self.listener is not None:
            self.listener.join(PATIENCE_S)
        for pipe in (self.process.stdout, self.process.stderr, self.errors):
            if pipe is not None:
                pipe.close()


class Children:
    """All of them. Every JSON line of their reports is put into `heard`, from threads that end with the process."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._children: list[Child] = []

    def start(self, name: str, arguments: Sequence[str], *, listen_to: Literal["stdout", "stderr"] = "stdout") -> Child:
        """Run `python arguments...`; its reports come from `listen_to`. stdin is a pipe that closes with this process.

        Listening to stderr leaves stdout a pipe for the caller to read.
        """
        errors = tempfile.TemporaryFile() if listen_to == "stdout" else None  # noqa: SIM115  closed by stop()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors if errors is not None else subprocess.PIPE,
            # The user's settings are for the user's broker.
            env={name: value for name, value in os.environ.items() if not name.startswith("KSHIM_")},
            # Only the demo handles Ctrl-C; it ends its children.
            start_new_session=_IS_POSIX,
        )
        child = Child(name, process, errors)
        self._children.append(child)
        pipe = process.stdout if listen_to == "stdout" else process.stderr
        child.listener = threading.Thread(target=self._listen, args=(child, pipe), name=name, daemon=True)
        child.listener.start()
        return child

    def ask_to_end(self, child: Child) -> None:
        """Close its stdin, on which every child of the demo ends by itself."""
        if child.process.stdin is not None and not child.process.stdin.closed:
            with contextlib.suppress(OSError):
                child.process.stdin.close()

    def stop(self, children: Sequence[Child] | None = None) -> None:
        """End these, or all: ask them, wait a little for all together, kill what is left."""
        ending = self._children if children is None else list(children)
        for child in ending:
            self.ask_to_end(child)
        deadline_s = time.monotonic() + PATIENCE_S
        for child in ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline_s - time.monotonic()))
            child.kill()
            child.process.wait()
        self._children = [child for child in self._children if child not in ending]
        for child in ending:
            child.release()

    def _listen(self, child: Child, pipe: IO[bytes]) -> None:
        for line in pipe:
            with contextlib.suppress(ValueError):
                heard = json.loads(line)
                if isinstance(heard, dict):
                    self.heard.put((child, heard))
