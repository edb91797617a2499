"""A real Apache Kafka 4.4.0: one KRaft node, controller and broker in one JVM."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from integration.support.broker import Child, Deadline
from integration.support.jars import classpath
from integration.support.java import java

_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_START_TIMEOUT_S = 90
_STOP_TIMEOUT_S = 60
_SIGTERM_EXIT_CODE = 143  # what a JVM answers after its shutdown hooks have run

_NOT_READY = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

# One node has one replica of everything. The initial rebalance delay is kshim's default.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_LOGGING = [f"-Dorg.slf4j.simpleLogger.{key}=true" for key in ("showDateTime", "showShortLogName")]
_LOGGING += ["-Dorg.slf4j.simpleLogger.dateTimeFormat=[yyyy-MM-dd HH:mm:ss,SSS]", "-Duser.timezone=UTC"]


class RealKafka:
    """The reference that every suite is also run against. Data and log stay in the directory it was given."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        features: Mapping[str, int] | None = None,
        listeners: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """`properties` go over the ones set here; keys as in `server.properties`. `features`: levels other than 4.4's.

        `listeners` are plain ones beside its own, by name: where each listens and what it advertises, as `host:port`.

        Raises:
            Unavailable: no JVM or no jars.
        """
        self._java = java()
        self._classpath = classpath()
        self._directory = directory
        self._properties = properties or {}
        self._features = features or {}
        self._listeners = listeners or {}
        self._child: Child | None = None
        self._port, controller_port = free_ports(2)
        self._write_properties(controller_port)

    @property
    def bootstrap(self) -> str:
        """`host:port` of the broker's listener."""
        return f"127.0.0.1:{self._port}"

    @property
    def data(self) -> Path:
        """Its one log directory."""
        return self._directory / "data"

    @property
    def log(self) -> Path:
        """Where the output of the broker goes."""
        return self._directory / "kafka.log"

    @property
    def running(self) -> bool:
        """Whether it was started and neither stopped nor killed."""
        return self._child is not None

    def start(self) -> None:
        """Format on the first start, run, and return when the offsets topic is there and the coordinator answers."""
        if not (self.data / "meta.properties").exists():
            self._format()
        command = [*self._jvm("-Xmx512m", *_LOGGING), "kafka.Kafka", str(self._directory / "server.properties")]
        self._child = Child(command, self.log)
        deadline = Deadline(_START_TIMEOUT_S)
        try:
            while not (coordinator_answers(self._port, "readiness") and coordinators_are_loaded(self._port)):
                self._child.require_running()
                deadline.check(f"Kafka accepts groups; its output ends in:\n{self._child.log_tail()}")
                time.sleep(0.1)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM: a clean shutdown."""
        if self._child is not None:
            code = self._child.terminate(timeout_s=_STOP_TIMEOUT_S)
            self._child = None
            assert code == _SIGTERM_EXIT_CODE, f"Kafka ended with {code}"

    def kill(self) -> None:
        """SIGKILL."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _jvm(self, *options: str) -> list[str]:
        return [self._java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, "-cp", self._classpath]

    def _write_properties(self, controller_port: int) -> None:
        listeners = {"PLAINTEXT": (self.bootstrap, self.bootstrap), **self._listeners}
        properties = {
            **_PROPERTIES,
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ("CONTROLLER", *listeners)),
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": ",".join(
                [
                    *(f"{name}://{address}" for name, (address, _) in listeners.items()),
                    f"CONTROLLER://127.0.0.1:{controller_port}",
                ]
            ),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, (_, address) in listeners.items()),
            "log.dirs": str(self.data),
            **self._properties,
        }
        self._directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self._directory / "server.properties").write_text(lines)

    def _format(self) -> None:
        command = [*self._jvm(), "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER_ID]
        command += ["-c", str(self._directory / "server.properties")]
        for name, level in self._features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_TIMEOUT_S, check=False)
        assert done.returncode == 0, f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}"


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on.

    They lie below the range that outgoing connections draw from, so that none of those takes the port while its
    broker is down.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(15_000, 30_000), 1_000):
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free loopback port between 15000 and 30000")


def coordinators_are_loaded(port: int) -> bool:
    """Whether DescribeGroups (v0) works for groups of every partition of the offsets topic, whichever those are.

    A new topic's partitions get their coordinators one after the other.
    """
    names = [f"readiness-{number}".encode() for number in range(500)]
    request = struct.pack(">hhihi", 15, 0, 1, -1, len(names))
    request += b"".join(struct.pack(">h", len(name)) + name for name in names)
    answer = ask(port, request)
    if answer is None:
        return False
    at = 8
    for name in names:
        (error_code,) = struct.unpack_from(">h", answer, at)
        if error_code != 0:
            assert error_code in _NOT_READY, f"error code {error_code}"
            return False
        at += 2
        for _ in range(4):  # the group, its state, protocol type and protocol
            (size,) = struct.unpack_from(">h", answer, at)
            at += 2 + size
        (member_count,) = struct.unpack_from(">i", answer, at)
        assert member_count == 0, f"{name!r} has members"
        at += 4
    return True


def coordinator_answers(port: int, group_id: str) -> bool:
    """Whether FindCoordinator (v0) for this group names a node. False while nobody listens or the topic is being made.

    Written by hand, so that readiness does not hang on the code under test.
    """
    group = group_id.encode()
    answer = ask(port, struct.pack(">hhihh", 10, 0, 1, -1, len(group)) + group)
    if answer is None:
        return False
    (error_code,) = struct.unpack_from(">h", answer, 4)
    assert error_code in (0, *_NOT_READY), f"error code {error_code}"
    return bool(error_code == 0)


def ask(port: int, request: bytes) -> bytes | None:
    """The answer to one request, from its correlation id on; None when there is none."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
            connection.makefile("rb") as reader,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", reader.read(4))
            answer = reader.read(size)
    except (OSError, struct.error):
        return None
    return answer if len(answer) == size else None
