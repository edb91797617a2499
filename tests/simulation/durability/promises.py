"""What a broker has promised: what was acknowledged, what somebody has read, and what that survives.

Under `always` a promise holds for ever. Under `interval` and `never` it holds while the machine has power, and for ever
once a sync has followed; `quiet` says that one has.
"""

from __future__ import annotations

from kshim.partitions.durability import FsyncPolicy
from tests.simulation.violation import require


class PromisedOffsets:
    """The commits of one group: numbers that rise from commit to commit, 0 for none."""

    def __init__(self, group_id: str, policy: FsyncPolicy) -> None:
        self.group_id = group_id
        self._policy = policy
        self._last = 0
        self._refused: set[int] = set()
        self._least = 0
        self._least_without_power = 0

    def next(self) -> int:
        """The number of a commit that is now sent."""
        self._last += 1
        return self._last

    def acknowledged(self, number: int) -> None:
        """Promised, unless a newer one is."""
        self._least = max(self._least, number)
        if self._policy == "always":
            self._least_without_power = self._least

    def refused(self, number: int) -> None:
        """It was answered that this one was not written."""
        self._refused.add(number)

    @property
    def least(self) -> int:
        """Whoever asks now must be told of this number or a later one."""
        return self._least

    def read(self, number: int, least: int) -> None:
        """Somebody was told of it who had asked when `least` was promised. Raises Violation."""
        require(number >= least, "commit-lost", f"{self.group_id} has {number}, {least} was promised")
        require(number <= self._last, "commit-invented", f"{self.group_id} has {number}, the last was {self._last}")
        require(number not in self._refused, "commit-refused", f"{self.group_id} has {number}, which was refused")
        self.acknowledged(number)

    def quiet(self) -> None:
        """Everything so far was synced."""
        if self._policy != "never":
            self._least_without_power = self._least

    def power_lost(self) -> None:
        """Only what is safe without power is promised any longer."""
        self._least = self._least_without_power


class PromisedRecords:
    """The records of one partition: different values, by offset."""

    def __init__(self, name: str, policy: FsyncPolicy) -> None:
        self.name = name
        self._policy = policy
        self._sent: set[bytes] = set()
        self._values: dict[int, bytes] = {}
        self._without_power: dict[int, bytes] = {}

    def sent(self, value: bytes) -> None:
        """A record is on its way."""
        self._sent.add(value)

    def acknowledged(self, offset: int, value: bytes) -> None:
        """Promised. Raises Violation when another one has that offset."""
        known = self._values.setdefault(offset, value)
        require(known == value, "record-changed", f"{self.name}: {value!r} at {offset}, where {known!r} was")
        require(value in self._sent, "record-invented", f"{self.name}: {value!r} at {offset}")
        if self._policy == "always":
            self._without_power[offset] = value

    def read(self, found: list[tuple[int, bytes]]) -> None:
        """Somebody was told of these. Raises Violation."""
        for offset, value in found:
            self.acknowledged(offset, value)

    def complete(self, found: list[tuple[int, bytes]], end_offset: int) -> None:
        """These are all the records there are, and nothing is on its way. Raises Violation."""
        self.read(found)
        missing = sorted(self._values.keys() - dict(found).keys())
        require(not missing, "record-lost", f"{self.name}: nothing at {missing}, which was promised")
        require(end_offset == len(found), "end-wrong", f"{self.name} ends at {end_offset} with {len(found)} records")

    def quiet(self) -> None:
        """Everything so far was synced."""
        if self._policy != "never":
            self._without_power = dict(self._values)

    def power_lost(self) -> None:
        """Only what is safe without power is promised any longer."""
        self._values = dict(self._without_power)
