"""Real consumers, of kafka-python and of Java, that can be started, slowed, stopped, killed and rolled."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from integration.spark.timeouts import HEARTBEAT_MS, MAX_POLL_MS, SESSION_MS, SLOW_S
from integration.support.broker import Broker, Deadline
from integration.support.jvm import Jvm

_ROOT: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 60


class Member(Protocol):
    """A consumer in a group."""

    def owned(self) -> frozenset[int]:
        """The partitions that it last said it owns."""
        ...

    def slow(self) -> None:
        """Its application does not poll for SLOW_S; its heartbeats go on."""
        ...

    def leave(self) -> None:
        """It closes and ends."""
        ...

    def kill(self) -> None:
        """Its process ends at once. No effect when it has ended."""
        ...


class KafkaPythonConsumer:
    """`integration.spark.member` in a process of its own."""

    _MODULE = "integration.spark.member"

    def __init__(self, broker: Broker, group_id: str, topic: str, client_id: str, *more: str) -> None:
        command = [sys.executable, "-m", self._MODULE, broker.bootstrap, group_id, topic, client_id, str(SLOW_S), *more]
        self._process = subprocess.Popen(command, bufsize=0, cwd=_ROOT, stdout=subprocess.PIPE)
        self._unread = b""
        self._owned: frozenset[int] = frozenset()

    def owned(self) -> frozenset[int]:
        """What it last wrote."""
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], 0)[0]:
            read = os.read(self._process.stdout.fileno(), 65536)
            if not read:
                break
            self._unread += read
            *lines, self._unread = self._unread.split(b"\n")
            if lines:
                self._owned = frozenset(partition for _, partition in json.loads(lines[-1]))
        return self._owned

    def slow(self) -> None:
        """SIGUSR1: see `member`."""
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """SIGSTOP: nothing of it runs, heartbeats included."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """SIGTERM, and wait."""
        self._process.terminate()
        code = self._process.wait(_TIMEOUT_S)
        self._closed()
        assert code == 0, f"a consumer ended with {code}"

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._closed()

    def _closed(self) -> None:
        self._owned = frozenset()
        if self._process.stdout is not None:
            self._process.stdout.close()


class LibrdkafkaConsumer(KafkaPythonConsumer):
    """`integration.spark.epoch_member` in a process of its own; `more` is its `group.protocol`."""

    _MODULE = "integration.spark.epoch_member"


class JavaConsumer:
    """The Java client's consumer on `jvm`, polled by a thread of this process."""

    def __init__(self, jvm: Jvm, broker: Broker, group_id: str, topic: str, client_id: str) -> None:
        string = "org.apache.kafka.common.serialization.StringDeserializer"
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group_id,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "500",
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
            "max.poll.interval.ms": str(MAX_POLL_MS),
            "key.deserializer": string,
            "value.deserializer": string,
        }
        self._jvm = jvm
        self._topic = topic
        self._consumer: Any = jvm.classes.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        self._owned: frozenset[int] = frozenset()
        self._is_over = threading.Event()
        self._is_slow = threading.Event()
        self._was_killed = False
        self._thread = threading.Thread(target=self._run, name=client_id)
        self._thread.start()

    def owned(self) -> frozenset[int]:
        """After its last poll."""
        return self._owned

    def slow(self) -> None:
        """The thread does not poll; Java's own heartbeat thread goes on."""
        self._is_slow.set()

    def leave(self) -> None:
        """`close()`, in its own thread."""
        self._is_over.set()
        self._thread.join(_TIMEOUT_S)
        assert not self._thread.is_alive(), "the consumer does not close"

    def kill(self) -> None:
        """SIGKILL to its JVM: alone on it, or the last to be killed."""
        self._was_killed = True
        self._is_over.set()
        self._jvm.kill()
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        try:
            java = self._jvm.classes.java
            self._consumer.subscribe([self._topic])
            while not self._is_over.is_set():
                self._consumer.poll(java.time.Duration.ofMillis(100))
                names = self._consumer.assignment().toString().strip("[]").split(", ")
                self._owned = frozenset(int(name.rpartition("-")[2]) for name in names if name)
                if self._is_slow.is_set():
                    self._is_slow.clear()
                    self._is_over.wait(SLOW_S)
            self._consumer.close()
        except Exception:
            if not self._was_killed:  # else py4j has nobody to talk to
                raise
        finally:
            self._owned = frozenset()


def wait_for_all(members: list[Member], partitions: int) -> None:
    """Return when the members own all partitions, each once, and each of them some. Raises AssertionError."""
    _wait(
        lambda: (
            all(owned := [member.owned() for member in members])
            and sorted(partition for each in owned for partition in each) == list(range(partitions))
        ),
        "the members own all partitions",
    )


def _wait(condition: Callable[[], object], what: str) -> None:
    deadline = Deadline(_TIMEOUT_S)
    while not condition():
        deadline.check(what)
        time.sleep(0.05)
