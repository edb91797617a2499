"""What was done to a fleet, in a file of its own: one JSON object an incident."""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TextIO


class Cause(Enum):
    """Why a group was disturbed: what an operator would write into the report, not what the coordinator saw of it."""

    DEPLOY = "deploy"
    RESTART = "restart"
    STATIC_RESTART = "static_restart"
    CRASH_LOOP = "crash_loop"
    FLAPPING = "flapping"
    SLOW_POLL = "slow_poll"
    SLOW_LEADER = "slow_leader"
    KILLED = "killed"
    PAUSED = "paused"
    HOST_STALLED = "host_stalled"
    ONE_BY_ONE_START = "one_by_one_start"
    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    PARTITIONS_ADDED = "partitions_added"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    REBALANCE_ENFORCED = "rebalance_enforced"
    DUPLICATE_INSTANCE = "duplicate_instance"
    # Played with real clients only:
    STATIC_STOPPED = "static_stopped"
    ASSIGNOR_CHANGED = "assignor_changed"
    TOPIC_CREATED = "topic_created"
    SHARED_GROUP_ID = "shared_group_id"
    NETWORK_CUT = "network_cut"
    BROKER_RESTARTED = "broker_restarted"

    def __str__(self) -> str:
        return self.value


class SubjectKind(Enum):
    """Who is responsible: one client, several, all of a group, or everything on a host."""

    CLIENT = "client"
    CLIENTS = "clients"
    GROUP = "group"
    HOST = "host"

    def __str__(self) -> str:
        return self.value


class Subject(NamedTuple):
    """`clients` are `instance id` or `client id@host`; `member_ids` all ids they had up to then. Both empty for a group."""

    kind: SubjectKind
    clients: tuple[str, ...] = ()
    host: str | None = None
    member_ids: tuple[str, ...] = ()


class Truth(NamedTuple):
    """One incident. `variant` says how it went, for people; `start_ms` and `end_ms` are wall clock."""

    incident_id: int
    cause: Cause
    variant: str
    groups: tuple[str, ...]
    subject: Subject
    start_ms: int
    end_ms: int


class Accident(NamedTuple):
    """A member was expelled without anybody's doing: this process had been too late with its heartbeats."""

    group_id: str
    client: str
    at_ms: int


class Ended(NamedTuple):
    """A process ended by itself, as after a fatal error of its client. `is_crash`: nothing was being done then, so it is an incident."""

    group_id: str
    client: str
    at_ms: int
    is_crash: bool


class Late(NamedTuple):
    """This process did not get to run for so long, so its members were all slower than their scripts said."""

    from_ms: int
    to_ms: int


class TruthFile:
    """Appends to a JSONL file, a line at a time."""

    def __init__(self, path: Path) -> None:
        """Begin the file anew."""
        self._file: TextIO = path.open("w", encoding="utf-8")
        self.accident_count = 0

    def add(self, truth: Truth) -> None:
        """Write one incident."""
        self._add(truth, "incident")

    def add_trigger(self, truth: Truth) -> None:
        """Write what was done for an incident to show: a rebalance was begun in a harmless way. Who finds it is right, too."""
        self._add(truth, "trigger")

    def _add(self, truth: Truth, kind: str) -> None:
        row = {
            "type": kind,
            "incident_id": truth.incident_id,
            "cause": truth.cause.value,
            "variant": truth.variant,
            "groups": list(truth.groups),
            "subject": {
                "kind": truth.subject.kind.value,
                "clients": list(truth.subject.clients),
                "host": truth.subject.host,
                "member_ids": list(truth.subject.member_ids),
            },
            "start_ms": truth.start_ms,
            "end_ms": truth.end_ms,
        }
        self._write(row)

    def add_accident(self, accident: Accident) -> None:
        """Write down what went wrong here, so that no score counts it."""
        self.accident_count += 1
        self._write({"type": "accident", **accident._asdict()})

    def add_late(self, late: Late) -> None:
        """Write down that nothing of that time is to be trusted."""
        self._write({"type": "late", **late._asdict()})

    def add_ended(self, ended: Ended) -> None:
        """Write down that a process ended without anybody's doing."""
        self._write({"type": "ended", **ended._asdict()})

    def end(self, at_ms: int) -> None:
        """Write down when the play was over: what is seen from then on is only the end of the processes."""
        self._write({"type": "end", "at_ms": at_ms})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, row: dict[str, object]) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


class Play(NamedTuple):
    """All that a file of truths holds. `end_ms` None: the play was cut short."""

    truths: tuple[Truth, ...]
    accidents: tuple[Accident, ...]
    end_ms: int | None
    late: tuple[Late, ...] = ()
    triggers: tuple[Truth, ...] = ()
    ended: tuple[Ended, ...] = ()


def read_truth(path: Path) -> Play:
    """The file back. Raises OSError, ValueError."""
    truths: list[Truth] = []
    accidents: list[Accident] = []
    late: list[Late] = []
    triggers: list[Truth] = []
    ended: list[Ended] = []
    end_ms: int | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        match row.pop("type"):
            case "incident":
                truths.append(_truth(row))
            case "trigger":
                triggers.append(_truth(row))
            case "accident":
                accidents.append(Accident(**row))
            case "late":
                late.append(Late(**row))
            case "ended":
                ended.append(Ended(**row))
            case _:
                end_ms = row["at_ms"]
    return Play(tuple(truths), tuple(accidents), end_ms, tuple(late), tuple(triggers), tuple(ended))


def _truth(row: dict[str, Any]) -> Truth:
    subject = row["subject"]
    return Truth(
        incident_id=row["incident_id"],
        cause=Cause(row["cause"]),
        variant=row["variant"],
        groups=tuple(row["groups"]),
        subject=Subject(
            SubjectKind(subject["kind"]), tuple(subject["clients"]), subject["host"], tuple(subject["member_ids"])
        ),
        start_ms=row["start_ms"],
        end_ms=row["end_ms"],
    )


def wall_ms() -> int:
    """Now, ms since the epoch."""
    return time.time_ns() // 1_000_000
