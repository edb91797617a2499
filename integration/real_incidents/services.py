"""Services: a group each, with the settings and habits that real services have."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

import kafka

from integration.real_incidents.hosts import Host
from integration.real_incidents.processes import PROGRAMS, Process

_NAMES = ("billing", "orders", "audit", "search", "mail", "pricing", "stock", "ledger", "fraud", "clicks")
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_UNKNOWN_ASSIGNORS = {"confluent-kafka": ("sticky",)}
"""What a client refuses to start with."""

_OF_BROKER = ("uniform", "range")
"""Assignors of the new protocol: those of the broker."""

CLIENTS = ("confluent-kafka", "franz-go", "java", "kafka-python")
"""In the order in which services have them. kafka-python knows the classic protocol alone."""
OF_NEW_PROTOCOL = CLIENTS[:-1]

_TIMEOUTS_MS = (
    (6_000, 20_000),
    (6_000, 40_000),
    (10_000, 30_000),
    (10_000, 60_000),
    (10_000, 12_000),
    (45_000, 300_000),
)
"""Session and poll interval; the last are Kafka's own."""

SESSION_MS = 10_000
"""Of groups of the new protocol, which is the broker's setting: shorter than Kafka's, so that a play takes minutes."""


class GroupProtocol(Enum):
    """What services run on: `group.protocol`. MIXED: every second service on each."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    MIXED = "mixed"


def protocol_and_client(wanted: GroupProtocol, number: int) -> tuple[GroupProtocol, str]:
    """Of the service with this number."""
    if wanted is GroupProtocol.MIXED:
        one, place = (GroupProtocol.CONSUMER, GroupProtocol.CLASSIC)[number % 2], number // 2
    else:
        one, place = wanted, number
    clients = CLIENTS if one is GroupProtocol.CLASSIC else OF_NEW_PROTOCOL
    return one, clients[place % len(clients)]


class Service:
    """One application: its group, its topic, and its processes, of which some hosts have several.

    Client ids are those of real deployments: one for all processes, one for each place, or a new one for each pod.
    """

    def __init__(
        self,
        number: int,
        protocol: GroupProtocol,
        client: str,
        hosts: Sequence[Host],
        folder: Path,
        rng: random.Random,
        *,
        is_plain: bool = False,
    ) -> None:
        """`protocol`: classic or consumer. `is_plain`: many have what their client library has by itself, ids and timeouts."""
        self.name = f"{_NAMES[number % len(_NAMES)]}{number // len(_NAMES) or ''}"
        self.client = client
        self.protocol = protocol
        self.rng = rng
        self.group_id = self.name
        self.topic = f"{self.name}.events"
        self.partition_count = rng.choice((4, 6, 8, 12))
        self.has_pattern = client != "kafka-python" and rng.random() < 0.25
        self.is_static = rng.random() < 0.3
        ids = ("shared", "by place") if self.is_static else ("shared", "by place", "by life")
        self.ids = rng.choice((*ids, "default", "default") if is_plain else ids)
        self.session_ms, self.max_poll_ms = rng.choice(_TIMEOUTS_MS + _TIMEOUTS_MS[-1:] * 3 * is_plain)
        self._assignors = [each for each in _ASSIGNORS if each not in _UNKNOWN_ASSIGNORS.get(client, ())]
        if protocol is GroupProtocol.CONSUMER:
            self.session_ms = SESSION_MS
            self._assignors = list(_OF_BROKER)
        self.assignor = rng.choice(self._assignors)
        self.records_per_s = rng.choice((0, 1, 5, 20))
        self.work_ms = rng.choice((0, 5, 50, 300))
        self.metadata_max_age_ms = rng.choice((5_000, 15_000, 30_000))
        self.processes: list[Process] = []
        self.is_disturbed = False
        """Whether a script does something to it now."""
        self.calm_at = 0.0
        """When the sessions have expired, in `time.monotonic`, of members that ended in the last script: their successors may end for that."""
        self._hosts = hosts
        self._folder = folder
        self._lives = itertools.count(1)

    @property
    def session_s(self) -> float:
        return self.session_ms / 1_000

    @property
    def max_poll_s(self) -> float:
        return self.max_poll_ms / 1_000

    def start(self, place: int, *, host: Host | None = None) -> Process:
        """Start a process at a place of the service: the next free number for a new one, that of a former for a successor.

        If the supervisor has already started one with the same instance id, it is that one: two would take the id from each other.
        """
        there = [each for each in self.processes if self.is_static and each.place == place]
        if there:
            return there[0]
        life = next(self._lives)
        instance_id = f"{self.name}-{place}" if self.is_static else None
        client_id = {
            "shared": self.name,
            "by place": f"{self.name}-{place}",
            "by life": f"{self.name}-{life:04x}",
            "default": self._default_id(instance_id),
        }[self.ids]
        process = Process(
            host or self._hosts[place % len(self._hosts)], client_id, instance_id, has_own_id=self.ids != "default"
        )
        self._launch(process)
        process.place = place
        self.processes.append(process)
        return process

    def change_assignor(self) -> None:
        """Let processes that start from now on have another assignor."""
        self.assignor = self.rng.choice([each for each in self._assignors if each != self.assignor])

    def next_place(self) -> int:
        """The lowest number that no process has."""
        taken = {process.place for process in self.processes}
        return next(place for place in itertools.count() if place not in taken)

    def start_intruder(self, host: Host, *, client_id: str, instance_id: str | None, topic: str | None) -> Process:
        """Start a process that is none of the service's, in its group."""
        process = Process(host, client_id, instance_id)
        self._launch(process, topic=topic)
        return process

    def drop(self, process: Process) -> None:
        """Take a process off the list that has ended, or will not come back. Idempotent: the supervisor may have done so."""
        if process in self.processes:
            self.processes.remove(process)

    def _launch(self, process: Process, *, topic: str | None = None) -> None:
        if topic is not None:
            source = {"topics": topic}
        elif self.has_pattern:
            source = {"pattern": f"^{self.name}\\..*"}
        else:
            source = {"topics": self.topic}
        process.start(
            PROGRAMS[self.client](),
            {
                **source,
                "group.id": self.group_id,
                "auto.offset.reset": "earliest",
                **self._of_protocol(),
                "max.poll.interval.ms": str(self.max_poll_ms),
                "max.poll.records": "20",
                "auto.commit.interval.ms": "1000",
                "metadata.max.age.ms": str(self.metadata_max_age_ms),
                "work.ms": str(self.work_ms),
            },
            self._folder / f"{self.name}-{next(self._lives)}.log",
        )

    def _default_id(self, instance_id: str | None) -> str:
        """The client id that the library has where none is set."""
        return {
            "confluent-kafka": "rdkafka",
            "franz-go": "kgo",
            "java": f"consumer-{self.group_id}-{instance_id or 1}",
            "kafka-python": f"kafka-python-{kafka.__version__}",
        }[self.client]

    def _of_protocol(self) -> dict[str, str]:
        if self.protocol is GroupProtocol.CONSUMER:
            return {"group.protocol": "consumer", "group.remote.assignor": self.assignor}
        return {
            "session.timeout.ms": str(self.session_ms),
            "heartbeat.interval.ms": str(min(self.session_ms // 3, 3_000)),
            "partition.assignment.strategy": self.assignor,
        }
