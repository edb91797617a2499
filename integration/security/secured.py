"""Both brokers with two SASL listeners, the same users and Kafka's authorizer."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from integration.support.broker import Child, Deadline
from integration.support.kafka import RealKafka, free_ports

ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
USERS = {ADMIN: ADMIN_PASSWORD, "alice": "alice-secret", "bob": 'bob\'s; "secret"'}
"""Who may log in with PLAIN; `admin` is a superuser."""
LISTENER, SHORT_LISTENER = "CLIENTS", "SHORT"
"""Two SASL listeners: on the second one sessions are short."""
SESSION_MS = 1_500


def jaas(users: Mapping[str, str]) -> str:
    """The users as Kafka's PlainLoginModule is told of them."""
    quoted = {user: password.replace("\\", "\\\\").replace('"', '\\"') for user, password in users.items()}
    options = " ".join(f'user_{user}="{password}"' for user, password in quoted.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {options};"


def security(users: Mapping[str, str] = USERS) -> dict[str, str]:
    """What both brokers are told. SCRAM credentials are made by the admin at run time."""
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    listeners: dict[str, str] = {}
    for name in (LISTENER.lower(), SHORT_LISTENER.lower()):
        prefix = f"listener.name.{name}"
        listeners |= {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{prefix}.plain.sasl.jaas.config": jaas(users),
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        }
    return {
        **listeners,
        f"listener.name.{SHORT_LISTENER.lower()}.plain.connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": "200",
    }


PROTOCOLS = f"{LISTENER}:SASL_PLAINTEXT,{SHORT_LISTENER}:SASL_PLAINTEXT"


def secure_listeners(ports: list[int]) -> str:
    """Both on loopback."""
    return f"{LISTENER}://127.0.0.1:{ports[0]},{SHORT_LISTENER}://127.0.0.1:{ports[1]}"


class SecureKafka(RealKafka):
    """The plain listener stays, for the suite's own probes; nobody on it has a name."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self._secure_ports = free_ports(2)
        found = {**security(), **(properties or {})}
        super().__init__(directory, {key: value.replace("\\", "\\\\") for key, value in found.items()})

    @property
    def secure(self) -> tuple[str, int]:
        """Host and port of the SASL listener."""
        return "127.0.0.1", self._secure_ports[0]

    @property
    def short(self) -> tuple[str, int]:
        """The same of the one with short sessions."""
        return "127.0.0.1", self._secure_ports[1]

    def _write_properties(self, controller_port: int) -> None:
        listeners = f"PLAINTEXT://{self.bootstrap},{secure_listeners(self._secure_ports)}"
        self._properties = {
            **self._properties,
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{PROTOCOLS}",
        }
        super()._write_properties(controller_port)


class SecureKshim:
    """`kshim serve` with the same configuration, from a properties file; its first listener is the SASL one."""

    name = "kshim"

    def __init__(
        self, directory: Path, properties: Mapping[str, str] | None = None, options: tuple[str, ...] = ()
    ) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._secure_ports = free_ports(2)
        found = {
            "listeners": secure_listeners(self._secure_ports),
            "listener.security.protocol.map": PROTOCOLS,
            **security(),
            **(properties or {}),
        }
        lines = "".join(f"{key}={value}\n" for key, value in found.items()).replace("\\", "\\\\")
        (directory / "server.properties").write_text(lines)
        self._options = options
        self.addresses: tuple[str, ...] = ()
        """What it told on stdout: the first listener of each broker."""
        self._child: Child | None = None

    @property
    def secure(self) -> tuple[str, int]:
        """Host and port of the SASL listener."""
        return "127.0.0.1", self._secure_ports[0]

    @property
    def short(self) -> tuple[str, int]:
        """The same of the one with short sessions."""
        return "127.0.0.1", self._secure_ports[1]

    @property
    def log(self) -> Path:
        """Where stderr goes."""
        return self._directory / "kshim.log"

    def start(self) -> None:
        """Return once it listens."""
        command = [str(Path(sys.executable).with_name("kshim")), "serve", "-vv"]
        command += [f"--properties={self._directory / 'server.properties'}", *self._options]
        self._child = Child(command, self.log, stdout=subprocess.PIPE)
        deadline = Deadline(30)
        stdout = self._child.process.stdout
        assert stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            deadline.check(f"kshim writes its address; stderr ends in:\n{self._child.log_tail()}")
            if select.select([stdout], [], [], deadline.left_s())[0]:
                byte = stdout.read(1)
                if not byte:
                    self._child.process.wait()
                    self._child.require_running()
                line += byte
        self.addresses = tuple(line.decode().strip().split(","))

    def stop(self) -> None:
        """SIGTERM."""
        if self._child is not None:
            child, self._child = self._child, None
            code = child.terminate(timeout_s=20)
            if child.process.stdout is not None:
                child.process.stdout.close()
            assert code == 0, f"kshim ended with {code}:\n{child.log_tail()}"


@contextmanager
def running_kshim(directory: Path) -> Iterator[SecureKshim]:
    """A kshim that keeps its data in a folder of `directory`, stopped at the end."""
    kshim = SecureKshim(directory, options=(f"--data-dir={directory / 'data'}",))
    kshim.start()
    try:
        yield kshim
    finally:
        kshim.stop()
