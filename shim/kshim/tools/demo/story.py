"""What happened in the demo so far, from the reports of its processes and the broker's JSON log. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# Why a group leaves Stable (or Empty), in the words of people. Keywords as in the broker's log.
CAUSES = {
    "member-joined": "{who} joined",
    "member-left": "{who} left",
    "session-expired": "the session of {who} expired",
    "rebalance-timeout": "{who} did not rejoin in time",
    "sync-timeout": "{who} did not fetch its assignment in time",
    "leader-rejoined": "{who}, the leader, asked for a new assignment",
    "metadata-changed": "{who} changed its subscription",
}


class Note(NamedTuple):
    """One line of the story: when (ms since its beginning), about whom, what."""

    at_ms: int
    who: str
    text: str


class Member:
    """One consumer. `state`: starting, joining, reading, rejoining, crashed, leaving or left."""

    def __init__(self, name: str, at_ms: int) -> None:
        self.name = name
        self.state = "starting"
        self.state_since_ms = at_ms
        self.partitions: list[int] = []
        self.record_count = 0

    @property
    def is_reading(self) -> bool:
        """Whether what it owns is being read: not once it has crashed."""
        return bool(self.partitions) and self.state != "crashed"


class Rebalance:
    """One rebalance. `generation` and `ended_ms` are None while it runs."""

    def __init__(self, started_ms: int, cause: str, who: str) -> None:
        self.started_ms = started_ms
        self.ended_ms: int | None = None
        self.generation: int | None = None
        self.cause = cause
        self.who = who

    @property
    def reason(self) -> str:
        """Why it happened, in words; a cause without words stands for itself."""
        return CAUSES.get(self.cause, self.cause + " ({who})").format(who=self.who)


class Gap(NamedTuple):
    """A time in which a partition had no living reader."""

    partition: int
    started_ms: int
    ended_ms: int
    last_reader: str


class Story:
    """The state of the demo. `began_ms` (wall clock) is the story's zero; every report returns the notes it is worth."""

    def __init__(self, group: str, partition_count: int, began_ms: int) -> None:
        self.group = group
        self.partition_count = partition_count
        self.began_ms = began_ms
        self.members: dict[str, Member] = {}
        self.rebalances: list[Rebalance] = []
        self.group_state = "Empty"
        self.generation = 0
        self.produced_count = 0
        self.read_count = 0
        self.repeated_count = 0
        self.gaps: list[Gap] = []
        self.notes: list[Note] = []
        self.readers: list[tuple[int, int, str]] = []
        """(ms, partition, name): who reads a partition from then on; `` none, `!name` a crashed owner."""
        self._read_ends = [0] * partition_count
        self._orphaned: dict[int, tuple[int, str]] = {}

    # ---------------------------------------------------------------- what the demo itself does

    def note(self, at_ms: int, who: str, text: str) -> None:
        """Add a line; `at_ms` is on the wall clock, as in all reports."""
        self.notes.append(Note(at_ms - self.began_ms, who, text))

    def starts(self, name: str, at_ms: int) -> None:
        """A consumer process was started."""
        self.members[name] = Member(name, at_ms - self.began_ms)
        self.note(at_ms, name, "starts")

    def crashes(self, name: str, at_ms: int) -> None:
        """A consumer process was killed."""
        member = self.members[name]
        self._move(member, "crashed", at_ms)
        self.note(at_ms, name, "is killed (kill -9); the broker does not know yet")
        for partition in member.partitions:
            self._reader(at_ms, partition, "!" + name)

    # ---------------------------------------------------------------- what children report

    def told(self, report: Mapping[str, Any]) -> None:
        """Take one report of a consumer or the producer; kinds unknown here are skipped."""
        kind, at_ms = report.get("kind"), int(report.get("at_ms", 0))
        if kind == "produced":
            self.produced_count = max(self.produced_count, int(report["total"]))
            return
        member = self.members.get(str(report.get("member")))
        if member is None:
            return
        if kind == "read":
            self._read(member, report["partition"], report["first"], report["last"])
        elif member.state == "crashed":
            return  # said before it was killed, heard after
        elif kind in ("joining", "leaving", "left"):
            self._move(member, kind, at_ms)
            if kind == "leaving":
                self.note(at_ms, member.name, "leaves the group")
        elif kind == "revoked":
            if member.partitions and member.state == "reading":
                self._move(member, "rejoining", at_ms)
            self._own(member, [], at_ms)
        elif kind == "assigned":
            self._own(member, list(report["partitions"]), at_ms)
            self._move(member, "reading", at_ms)
            self.note(at_ms, member.name, f"reads {_listed(member.partitions)}")

    # ---------------------------------------------------------------- what the broker logs

    def logged(self, entry: Mapping[str, Any]) -> None:
        """Take one object of the broker's JSON log; only this group's transitions matter."""
        if entry.get("event") != "transition" or entry.get("group") != self.group:
            return
        at_ms = int(entry["at_ms"])
        self.group_state = str(entry["to"])
        self.generation = int(entry["generation"])
        if self.group_state == "PreparingRebalance":
            who = str(entry.get("client_id") or entry.get("member") or "a member")
            rebalance = Rebalance(at_ms - self.began_ms, str(entry["cause"]), who)
            self.rebalances.append(rebalance)
            self.note(at_ms, "rebalance", f"begins: {rebalance.reason}")
        elif self.group_state in ("Stable", "Empty") and self.rebalances and self.rebalances[-1].ended_ms is None:
            rebalance = self.rebalances[-1]
            rebalance.ended_ms = at_ms - self.began_ms
            rebalance.generation = self.generation
            took_ms = rebalance.ended_ms - rebalance.started_ms
            self.note(at_ms, "rebalance", f"ends after {took_ms / 1000:.2f} s: generation {self.generation}")

    # ---------------------------------------------------------------- details

    def reader_at(self, partition: int, at_ms: int) -> str:
        """The reader of `partition` at `at_ms` of the story; see `readers`."""
        found = ""
        for changed_ms, changed, name in self.readers:
            if changed_ms > at_ms:
                break
            if changed == partition:
                found = name
        return found

    def _move(self, member: Member, state: str, at_ms: int) -> None:
        member.state = state
        member.state_since_ms = at_ms - self.began_ms

    def _own(self, member: Member, partitions: list[int], at_ms: int) -> None:
        for partition in set(member.partitions) - set(partitions):
            self._reader(at_ms, partition, "")
        member.partitions = partitions
        for partition in partitions:
            for other in self.members.values():
                if other is not member and partition in other.partitions:
                    other.partitions = [index for index in other.partitions if index != partition]
            self._reader(at_ms, partition, member.name)

    def _reader(self, at_ms: int, partition: int, name: str) -> None:
        since_ms = at_ms - self.began_ms
        before = self.reader_at(partition, since_ms)
        self.readers.append((since_ms, partition, name))
        self.readers.sort(key=lambda change: change[0])  # children's clocks are read before their lines are
        if before and not before.startswith("!") and before != name:
            self._orphaned[partition] = (since_ms, before)
        if name and not name.startswith("!") and partition in self._orphaned:
            orphaned_ms, last_reader = self._orphaned.pop(partition)
            self.gaps.append(Gap(partition, orphaned_ms, since_ms, last_reader))

    def _read(self, member: Member, partition: int, first: int, last: int) -> None:
        count = last - first + 1
        member.record_count += count
        self.read_count += count
        self.repeated_count += max(0, min(last + 1, self._read_ends[partition]) - first)
        self._read_ends[partition] = max(self._read_ends[partition], last + 1)


def _listed(partitions: list[int]) -> str:
    if not partitions:
        return "nothing"
    return f"partition{'s' if len(partitions) > 1 else ''} {' '.join(map(str, partitions))}"
