"""A rebalance of a group of the new protocol: what its target means to each member, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kshim.coordinator.groups.consumer.state import ConsumerGroupState
from kshim.coordinator.groups.events import MemberRef, TopicPartitions
from kshim.history.course import Arrival, Course, arrival_json
from kshim.history.json_parts import BOOL, limited, names, number, quoted


class Gap(NamedTuple):
    """The time in which a partition, or an active task, had no owner, from one member to another.

    `had_state`: whether the new owner had kept the state of the task already; None: it is a partition.
    """

    topic: str
    partition: int
    unowned_ms: int
    from_member_id: str
    to_member_id: str
    had_state: bool | None = None


@dataclass(kw_only=True, eq=False, slots=True)
class Progress:
    """A member that a target takes partitions from or gives some to. Instants are ms since the rebalance began.

    It was told to revoke at `told_ms`, and had done so at `revoked_ms`; it had got all it is to get at `assigned_ms`.
    """

    member: MemberRef
    is_new: bool
    lost: int
    gained: int
    told_ms: int | None = None
    revoked_ms: int | None = None
    assigned_ms: int | None = None

    def to_json(self) -> str:
        """As in an event."""
        return (
            f'{{{names(self.member)},"is_new":{BOOL[self.is_new]},"lost":{self.lost},'
            f'"gained":{self.gained},"told_ms":{number(self.told_ms)},'
            f'"revoked_ms":{number(self.revoked_ms)},"assigned_ms":{number(self.assigned_ms)}}}'
        )


@dataclass(kw_only=True, eq=False, slots=True)
class EpochCourse(Course):
    """One rebalance of a group with epochs: from a new one until every member is where its target is. `state` is that of the group.

    Instants are ms since it began; `target_ms` and `revoked_ms` are None while that has not been. `settled` are the members
    that are at the epoch.
    """

    state: str = field(default=ConsumerGroupState.ASSIGNING.value, init=False)
    target_ms: int | None = field(default=None, init=False)
    revoked_ms: int | None = field(default=None, init=False)
    members: dict[str, Progress] = field(default_factory=dict, init=False)
    newcomers: set[str]
    settled: dict[str, MemberRef] = field(default_factory=dict, init=False)
    last_to_revoke: Arrival | None = field(default=None, init=False)
    last_to_assign: Arrival | None = field(default=None, init=False)
    gaps: list[Gap] = field(default_factory=list, init=False)

    def arrival(self, member: MemberRef, now_ms: int) -> Arrival:
        """A member has done something now: how long after the target was computed."""
        wait_ms = now_ms - self.started_ms - (self.target_ms or 0)
        return Arrival(member, member.member_id in self.newcomers, wait_ms)

    def phases(self, total_ms: int, *, is_revoking: bool) -> tuple[int, int | None, int | None]:
        """How long it computed, revoked and assigned until now; None for a phase that was not reached.

        A member that `is_revoking` has still partitions to give up.
        """
        if self.target_ms is None:
            return total_ms, None, None
        if is_revoking:
            return self.target_ms, total_ms - self.target_ms, None
        revoked_ms = max(self.target_ms, self.revoked_ms or 0)
        return self.target_ms, revoked_ms - self.target_ms, total_ms - revoked_ms


class StepTaken(NamedTuple):
    """One step of a member: its state and epoch after it, and the partitions or tasks that it is about.

    `to_revoke` are tasks in any role, `revoked` and `received` active ones; the three behind them are of streams groups. `hyphen`
    is between the name and the number of each.
    """

    state: str
    epoch: int
    to_revoke: TopicPartitions
    revoked: TopicPartitions
    received: TopicPartitions
    standby_revoked: TopicPartitions = ()
    standby_received: TopicPartitions = ()
    promoted: TopicPartitions = ()
    hyphen: str = "-"

    def lists(self) -> Iterator[tuple[str, list[str]]]:
        """What it is about: the name of each list, with the names in it."""
        for name, places in zip(self._fields[2:-1], self[2:-1], strict=True):
            yield name, [f"{part}{self.hyphen}{index}" for part, index in places]


class Reconciliation:
    """What an event of a group of the new protocol says of its way to a target; fixed when the event happens."""

    def __init__(
        self,
        *,
        phases: tuple[int | None, int | None, int | None] = (None, None, None),
        course: EpochCourse | None = None,
        gaps: Sequence[Gap] = (),
        step: StepTaken | None = None,
    ) -> None:
        self.phases = phases
        self.total_ms = None if phases[0] is None else sum(each or 0 for each in phases)
        self.step = step
        self.gaps = gaps
        self.last_to_revoke: Arrival | None = None
        self.last_to_assign: Arrival | None = None
        self.progress: list[str] | None = None
        if course is not None:
            self.last_to_revoke, self.last_to_assign = course.last_to_revoke, course.last_to_assign
            self.progress = [each.to_json() for each in course.members.values()]

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        size_bytes = 300 + 200 * len(self.gaps) + sum(map(len, self.progress or ()))
        if self.step is not None:
            size_bytes += 80 * sum(map(len, self.step[2:-1]))
        return size_bytes


def reconciliation_json(found: Reconciliation | None) -> str:
    """As in an event."""
    if found is None:
        return "null"
    compute_ms, revoke_ms, assign_ms = map(number, found.phases)
    gaps = [
        f'{{"topic":{quoted(gap.topic)},"partition":{gap.partition},"unowned_ms":{gap.unowned_ms},'
        f'"from_member_id":{quoted(gap.from_member_id)},"to_member_id":{quoted(gap.to_member_id)},'
        f'"had_state":{"null" if gap.had_state is None else BOOL[gap.had_state]}}}'
        for gap in sorted(found.gaps, key=lambda gap: -gap.unowned_ms)
    ]
    return (
        f'{{"compute_ms":{compute_ms},"revoke_ms":{revoke_ms},"assign_ms":{assign_ms},'
        f'"last_to_revoke":{arrival_json(found.last_to_revoke)},"last_to_assign":{arrival_json(found.last_to_assign)},'
        f'{limited("members", found.progress)},{limited("unowned", gaps)},"step":{_step_json(found.step)}}}'
    )


def _step_json(step: StepTaken | None) -> str:
    if step is None:
        return "null"
    lists = (f'"{name}":[{",".join(map(quoted, each))}]' for name, each in step.lists())
    return f'{{"state":"{step.state}","epoch":{step.epoch},{",".join(lists)}}}'
