"""From the tasks that a member has to those it is to have, one heartbeat at a time.

An active task runs nowhere else. A standby or warm-up task is on no process twice, in no other role either. Who is to lose
tasks gives them up first; who is to gain some waits until they are free; a task that only changes its role within a member
does so at once. Source: Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from kshim.coordinator.groups.streams.state import MemberState
from kshim.coordinator.groups.streams.task_assignor import Task
from kshim.coordinator.groups.streams.tasks import NOTHING_HELD, HeldTasks, Tasks
from kshim_protocol.errors import ErrorCode, KafkaError


class Current(NamedTuple):
    """Where a member is. The tasks of `pending_revocation` it was told to give up; both are in its hands."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    pending_revocation: HeldTasks = NOTHING_HELD

    @property
    def place(self) -> tuple[int, MemberState]:
        """What the state of the group depends on."""
        return self.epoch, self.state

    def is_at(self, target_epoch: int) -> bool:
        """Whether there is nothing left to do up to this epoch."""
        return self.epoch == target_epoch and self.state is MemberState.STABLE

    def active_since(self, task: Task) -> int | None:
        """The epoch in which an active task came into the member's hands; None where it is not in them."""
        return self.assigned.active.get(task, self.pending_revocation.active.get(task))


Owned = Tasks | None
"""What a member says it runs; None: it did not say, so perhaps all it ever got."""


class Processes(NamedTuple):
    """Which processes have a task in their hands, by its role."""

    active: Callable[[Task], str | None]
    standby: Callable[[Task], Set[str]]
    warmup: Callable[[Task], Set[str]]


def reconcile(
    current: Current, *, target_epoch: int, target: Tasks, owned: Owned, process_id: str, processes: Processes
) -> Current:
    """The next step of a member of `process_id` that reports `owned`.

    Raises KafkaError: FENCED_MEMBER_EPOCH when its record says a state that nobody knows.
    """
    step = _Step(current, target_epoch, target, owned, process_id, processes)
    match current.state:
        case MemberState.STABLE:
            return current if current.epoch == target_epoch else step.take(current.epoch)
        case MemberState.UNREVOKED_TASKS:
            if step.may_still_run(current.pending_revocation):
                return current
            return step.take(current.epoch + 1)
        case MemberState.UNRELEASED_TASKS:
            return step.take(current.epoch)
        case MemberState.UNKNOWN:
            if owned == Tasks():
                return step.take(target_epoch)
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )


class _Step:
    """What has to be known to find a member's next step."""

    def __init__(
        self,
        current: Current,
        target_epoch: int,
        target: Tasks,
        owned: Owned,
        process_id: str,
        processes: Processes,
    ) -> None:
        self._current = current
        self._target_epoch = target_epoch
        self._target = target
        self._owned = owned
        self._process_id = process_id
        self._processes = processes

    def may_still_run(self, tasks: HeldTasks) -> bool:
        """Whether the member has not said that it has given up all of these."""
        return self._owned is None or tasks.shares_any(self._owned)

    def take(self, epoch: int) -> Current:
        """What the member has next; `epoch` is its own as long as it has to give up tasks first."""
        assigned, target = self._current.assigned, self._target
        kept = {task: since for task, since in assigned.active.items() if task in target.active}
        kept_standby, kept_warmup = assigned.standby & target.standby, assigned.warmup & target.warmup
        wanted = Tasks(target.active - kept.keys(), target.standby - kept_standby, target.warmup - kept_warmup)
        free = Tasks(
            frozenset(filter(self._is_free_to_run, wanted.active)),
            frozenset(filter(self._is_free_to_stand_by, wanted.standby)),
            frozenset(filter(self._is_free_to_warm_up, wanted.warmup)),
        )
        # Roles that change within the member. A replica that is to become active stays one until it can run.
        demoted = free.standby & assigned.active.keys()
        cooled, warmed = free.warmup & assigned.standby, free.standby & assigned.warmup
        to_give_up = HeldTasks(
            {task: since for task, since in assigned.active.items() if task not in kept},
            assigned.standby - kept_standby - cooled - target.active,
            assigned.warmup - kept_warmup - warmed - target.active,
        )
        must_give_up = not to_give_up.is_empty and self.may_still_run(to_give_up)
        promoted = frozenset() if must_give_up else free.active
        kept_standby |= demoted | warmed | (assigned.standby & target.active) - promoted
        kept_warmup |= cooled | (assigned.warmup & target.active) - promoted
        previous = self._current.epoch
        if must_give_up:
            held = HeldTasks(kept, kept_standby, kept_warmup)
            return Current(epoch, previous, MemberState.UNREVOKED_TASKS, held, to_give_up)
        held = HeldTasks(
            {**kept, **dict.fromkeys(sorted(free.active), self._target_epoch)},
            kept_standby | free.standby,
            kept_warmup | free.warmup,
        )
        state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_TASKS
        return Current(self._target_epoch, previous, state, held)

    def _is_free_to_run(self, task: Task) -> bool:
        return (
            self._processes.active(task) is None
            and not self._is_standby_of_another(task)
            and not self._is_warmup_of_another(task)
        )

    def _is_free_to_stand_by(self, task: Task) -> bool:
        runs_here = self._processes.active(task) == self._process_id
        return (
            not (runs_here and task not in self._current.assigned.active)
            and self._process_id not in self._processes.standby(task)
            and not self._is_warmup_of_another(task)
        )

    def _is_free_to_warm_up(self, task: Task) -> bool:
        return (
            self._processes.active(task) != self._process_id
            and not self._is_standby_of_another(task)
            and self._process_id not in self._processes.warmup(task)
        )

    def _is_standby_of_another(self, task: Task) -> bool:
        """Whether another member of this process has the task as a standby."""
        return self._process_id in self._processes.standby(task) and task not in self._current.assigned.standby

    def _is_warmup_of_another(self, task: Task) -> bool:
        """Whether another member of this process has the task as a warm-up."""
        return self._process_id in self._processes.warmup(task) and task not in self._current.assigned.warmup


def require_epoch(current: Current, epoch: int, owned: Owned) -> None:
    """Whether a member may send this epoch. Raises KafkaError: FENCED_MEMBER_EPOCH.

    The previous epoch is taken from a member that did not get our answer: it says what it runs, and that is all assigned
    to it.
    """
    if epoch == current.epoch:
        return
    has_lost_answer = epoch == current.previous_epoch and epoch < current.epoch
    if not has_lost_answer or owned is None or not current.assigned.contains(owned):
        which = "greater" if epoch > current.epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {which} member epoch ({epoch}) than the one known by the group coordinator "
            f"({current.epoch}). The member must abandon all its partitions and rejoin.",
        )
