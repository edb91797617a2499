"""Processes of services: real clients that are started, stopped in good order, killed and paused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from integration.real_incidents import settings
from integration.real_incidents.hosts import Host
from integration.support.go import go_program
from integration.support.jars import KAFKA
from integration.support.java_program import java_program

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_STOP_TIMEOUT_S = 60.0


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"integration.real_incidents.{module}"]


PROGRAMS: Mapping[str, Callable[[], list[str]]] = {
    "kafka-python": lambda: _python("kafka_python_service"),
    "confluent-kafka": lambda: _python("confluent_kafka_service"),
    "java": lambda: java_program("Service", [_HERE / "java" / "Service.java"], KAFKA, "-Xmx96m"),
    "franz-go": lambda: [str(go_program(_HERE / "go"))],
}
"""The command of each client's service program. Raises Unavailable."""


class Process:
    """One life of one process. `client` is the name an operator knows it by."""

    def __init__(self, host: Host, client_id: str, instance_id: str | None, *, has_own_id: bool = True) -> None:
        """`has_own_id`: whether it is told its client id; else that is the one its client library has by itself."""
        self.host = host
        self.client_id = client_id
        self.has_own_id = has_own_id
        self.instance_id = instance_id
        self.place = 0
        """Its number in the service."""
        self.is_to_end = False
        """Whether it was told to: then nobody starts it again when it does."""
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> str:
        return self.instance_id or f"{self.client_id}@{self.host.address}"

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended, by itself or otherwise."""
        return self._child is not None and self._child.poll() is None

    def start(self, command: list[str], given: dict[str, str], log: Path) -> None:
        """Start it, its output going to `log`."""
        own = {"bootstrap.servers": self.host.bootstrap}
        if self.has_own_id:
            own["client.id"] = self.client_id
        if self.instance_id is not None:
            own["group.instance.id"] = self.instance_id
        with log.open("ab") as file:
            self._child = subprocess.Popen(
                command,
                cwd=_ROOT,
                env={**os.environ, settings.ENVIRONMENT: settings.to_text({**given, **own})},
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def tell(self, command: str) -> None:
        """Send a command of `settings.Commands`. One that has ended is told nothing."""
        assert self._child is not None
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(command.encode() + b"\n")
            self._child.stdin.flush()

    async def stop(self) -> None:
        """Have it close its consumer and end; kill it if that takes more than a minute."""
        self.is_to_end = True
        self.tell("stop")
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, _STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """SIGKILL. Idempotent."""
        assert self._child is not None
        self._signal(signal.SIGKILL)
        self._child.wait()
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()

    def pause(self) -> None:
        """SIGSTOP: its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)
