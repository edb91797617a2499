"""`kshim serve` as a user starts it: a process of its own."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from integration.support.broker import Child, Deadline

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 20


class KshimProcess:
    """The broker under test. Port 0 on the first start, the same port after that."""

    name = "kshim"

    def __init__(
        self,
        directory: Path,
        *,
        config: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
        durable: bool = False,
        options: tuple[str, ...] = (),
        listeners: str = "",
    ) -> None:
        """`durable` keeps the data in a folder of `directory`; otherwise a restart begins with nothing.

        `config` is Kafka's own keys, `topics` maps names to partition counts, `options` go to `serve` as they are.
        `listeners` is Kafka's key of that name, with fixed ports, instead of a plain one on a free port.
        """
        self._listeners = listeners
        self._directory = directory
        self._options = list(options)
        self._options += [f"--config={key}={value}" for key, value in (config or {}).items()]
        self._options += [f"--topic={name}:{partitions}" for name, partitions in (topics or {}).items()]
        if durable:
            self._options.append(f"--data-dir={self.data}")
        self._child: Child | None = None
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """`host:port`, as the first line on stdout said."""
        assert self._bootstrap, "never started"
        return self._bootstrap

    @property
    def data(self) -> Path:
        """Where its data is, when that is durable."""
        return self._directory / "data"

    @property
    def log(self) -> Path:
        """Where stderr goes."""
        return self._directory / "kshim.log"

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        assert self._child is not None, "not running"
        return self._child.process.pid

    def start(self) -> None:
        """Run it and return when it has written its address."""
        self._directory.mkdir(parents=True, exist_ok=True)
        listen = self._bootstrap or "127.0.0.1:0"
        where = f"--config=listeners={self._listeners}" if self._listeners else f"--listen={listen}"
        command = [str(Path(sys.executable).with_name("kshim")), "serve", where, *self._options]
        self._child = Child(command, self.log, stdout=subprocess.PIPE)
        try:
            self._bootstrap = self._first_line(self._child)
        except BaseException:
            self.kill()
            raise
        assert listen in (self._bootstrap, "127.0.0.1:0"), f"listens on {self._bootstrap}, was told {listen}"

    def stop(self) -> None:
        """SIGTERM: it must end with 0 and have written nothing but its address."""
        if self._child is None:
            return
        child, self._child = self._child, None
        code = child.terminate(timeout_s=_STOP_TIMEOUT_S)
        rest = self._drain(child)
        assert code == 0, f"kshim ended with {code}:\n{child.log_tail()}"
        assert rest == b"", f"kshim wrote more than its address to stdout: {rest!r}"

    def kill(self) -> None:
        """SIGKILL."""
        if self._child is not None:
            child, self._child = self._child, None
            child.kill()
            self._drain(child)

    @staticmethod
    def _first_line(child: Child) -> str:
        stdout = child.process.stdout
        assert stdout is not None
        deadline = Deadline(_START_TIMEOUT_S)
        line = b""
        while not line.endswith(b"\n"):
            deadline.check(f"kshim writes its address; so far {line!r}, stderr ends in:\n{child.log_tail()}")
            if select.select([stdout], [], [], deadline.left_s())[0]:
                byte = stdout.read(1)
                if not byte:
                    child.process.wait()
                    child.require_running()
                line += byte
        address = line.decode().rstrip("\n")
        assert address.rpartition(":")[2].isdigit(), f"the first line is not an address: {address!r}"
        return address

    @staticmethod
    def _drain(child: Child) -> bytes:
        """What was still unread of stdout. The pipe ends with the process."""
        stdout = child.process.stdout
        assert stdout is not None
        with stdout:
            return stdout.read()
