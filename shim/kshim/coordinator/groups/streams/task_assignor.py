"""The task assignor `sticky`: from members, what they have, and the tasks there are, to what each is to run (KIP-1071).

Source: Kafka's StickyTaskAssignor and ProcessState. Its choice between equals follows the order of hash tables; that is
ours, too (`hash_order`), so the targets are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from kshim.coordinator.hash_order import Heap, computed_hash_map_order, hash_map_order

STICKY: Final = "sticky"
"""Its name."""

Task = tuple[str, int]
"""Id of a subtopology, index of a partition."""


class AssignorMember(NamedTuple):
    """A member as the assignor sees it: its process, and the tasks that it is assigned now (not its target)."""

    process_id: str
    active_tasks: frozenset[Task] = frozenset()
    standby_tasks: frozenset[Task] = frozenset()
    task_offsets: Mapping[Task, int] = {}  # how far it has restored tasks, as it last said


class AssignedTasks(NamedTuple):
    """What one member is to run. Kafka 4.4 assigns no warm-up tasks."""

    active_tasks: frozenset[Task] = frozenset()
    standby_tasks: frozenset[Task] = frozenset()


class SubtopologyTasks(NamedTuple):
    """How many tasks a subtopology has, and whether they have state that a standby task could keep, too."""

    task_count: int
    is_stateful: bool


def assign_sticky(
    members: Mapping[str, AssignorMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    *,
    standby_replicas: int = 0,
) -> dict[str, AssignedTasks]:
    """What each member is to run; every member is in it. `members` come in the order in which Kafka's group has them.

    Active tasks stay with who has them, then go to who has their state, then to processes with the fewest tasks for each
    of their members. Standby tasks likewise, and never two copies of one task to a process: where there are too few
    processes, there are fewer copies than `standby_replicas`.
    """
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas)
    active = [(name, index) for name, each in subtopologies.items() for index in range(each.task_count)]
    assignment.assign_active(active)
    if standby_replicas:
        assignment.assign_standby([task for task in active if subtopologies[task[0]].is_stateful], standby_replicas)
    return {
        member_id: AssignedTasks(frozenset(member.tasks[_Role.ACTIVE]), frozenset(member.tasks[_Role.STANDBY]))
        for member_id, member in assignment.members.items()
    }


class _Role(Enum):
    ACTIVE = auto()
    STANDBY = auto()


class _Member:
    def __init__(self, process: _Process) -> None:
        self.process = process
        self.tasks: dict[_Role, set[Task]] = {role: set() for role in _Role}
        self.task_count = 0  # in all roles


class _Process:
    """Members that share a process, and so the state on its disk."""

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.tasks: set[Task] = set()
        self._by_load: Heap[_Member] | None = None

    def load(self) -> float:
        """Tasks for each of its members."""
        return len(self.tasks) / len(self.members)

    def by_load(self) -> Heap[_Member]:
        """Its members, that with the fewest tasks first."""
        if self._by_load is None:
            in_order = (self.members[member_id] for member_id in hash_map_order(self.members))
            self._by_load = Heap(lambda member: member.task_count, in_order)
        return self._by_load

    def forget_order(self) -> None:
        """A member was given a task although another one might have had fewer."""
        self._by_load = None


class _Quota:
    """How many tasks a member may keep, so that all get equally many. Those that have their share leave the others theirs."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.size = self._share()

    def given(self, task_count: int) -> None:
        """A member has one more, which makes this many."""
        if task_count == self.size:
            self._task_count -= task_count
            self._member_count -= 1
            self.size = self._share()

    def _share(self) -> int:
        return -(-self._task_count // self._member_count) if self._member_count else 0


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, AssignorMember],
        subtopologies: Mapping[str, SubtopologyTasks],
        standby_replicas: int,
    ) -> None:
        active_count = sum(each.task_count for each in subtopologies.values())
        standby_count = standby_replicas * sum(each.task_count for each in subtopologies.values() if each.is_stateful)
        of_active, of_all = _Quota(active_count, len(members)), _Quota(active_count + standby_count, len(members))
        self._quotas = {
            _Role.ACTIVE: (of_active, of_all),
            _Role.STANDBY: (of_all,),
        }  # the first says who may keep a task
        self.members: dict[str, _Member] = {}
        self._processes: dict[str, _Process] = {}
        self._owners: dict[Task, _Member] = {}
        with_state: dict[Task, list[tuple[bool, int, _Member]]] = {}
        for member_id in hash_map_order(members):
            asked = members[member_id]
            process = self._processes.setdefault(asked.process_id, _Process())
            member = self.members[member_id] = process.members[member_id] = _Member(process)
            self._owners.update(dict.fromkeys(asked.active_tasks, member))
            for task in asked.standby_tasks | asked.task_offsets.keys():
                rank = task not in asked.standby_tasks, -asked.task_offsets.get(task, 0)
                with_state.setdefault(task, []).append((*rank, member))
        self._process_order = computed_hash_map_order(
            (members[member_id].process_id for member_id in self.members), capacity=len(members)
        )
        # Those that have it as a standby task first, and of these and of the others those that have most of it.
        self._with_state = {
            task: [member for _, _, member in sorted(found, key=lambda known: known[:2])]
            for task, found in with_state.items()
        }

    def assign_active(self, tasks: Iterable[Task]) -> None:
        left = self._keep(sorted(tasks, key=_by_partition), self._owners.get)
        left = self._keep(left, lambda task: _least_loaded(self._with_state.get(task, ())))
        processes = self._processes_by_load()
        for task in sorted(left):
            process = processes.pop()
            self._give_to_least_loaded(process, task, _Role.ACTIVE)
            processes.add(process)

    def _keep(self, tasks: Iterable[Task], holder: Callable[[Task], _Member | None]) -> list[Task]:
        """Give tasks to who has them, as long as these may keep more. Returns the others."""
        left = []
        for task in tasks:
            member = holder(task)
            if member is not None and self._may_keep(member, _Role.ACTIVE):
                self._give_to(member, task, _Role.ACTIVE)
            else:
                left.append(task)
        return left

    def assign_standby(self, tasks: Iterable[Task], replicas: int) -> None:
        missing: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for placed in range(replicas):
                member = self._standby_holder(task)
                if member is None:
                    missing.append((task, replicas - placed))
                    break
                self._give_to(member, task, _Role.STANDBY)
        processes = self._processes_by_load()
        for task, count in sorted(missing, reverse=True):
            given = 0
            while given < count and self._give_to_another_process(processes, task):
                given += 1

    def _standby_holder(self, task: Task) -> _Member | None:
        """A member that has the state of a task and may keep it, in a process that does not run it already."""
        owner = self._owners.get(task)
        if owner is not None and task not in owner.process.tasks and self._may_keep(owner, _Role.STANDBY):
            return owner
        elsewhere = [member for member in self._with_state.get(task, ()) if task not in member.process.tasks]
        member = _least_loaded(elsewhere)
        return member if member is not None and self._may_keep(member, _Role.STANDBY) else None

    def _give_to_another_process(self, processes: Heap[_Process], task: Task) -> bool:
        """A standby task for the least loaded process that has no copy of it. Returns whether there is one."""
        passed: list[_Process] = []
        is_given = False
        while processes and not is_given:
            passed.append(processes.pop())
            if task not in passed[-1].tasks:
                self._give_to_least_loaded(passed[-1], task, _Role.STANDBY)
                is_given = True
        for process in reversed(passed):
            processes.add(process)
        return is_given

    def _processes_by_load(self) -> Heap[_Process]:
        return Heap(_Process.load, (self._processes[process_id] for process_id in self._process_order))

    def _may_keep(self, member: _Member, role: _Role) -> bool:
        return member.task_count < self._quotas[role][0].size

    def _give_to(self, member: _Member, task: Task, role: _Role) -> None:
        self._give(member, task, role)
        member.process.forget_order()

    def _give_to_least_loaded(self, process: _Process, task: Task, role: _Role) -> None:
        members = process.by_load()
        member = members.pop()
        self._give(member, task, role)
        members.add(member)

    def _give(self, member: _Member, task: Task, role: _Role) -> None:
        member.tasks[role].add(task)
        member.task_count += 1
        member.process.tasks.add(task)
        for quota in self._quotas[role]:
            quota.given(member.task_count)


def _by_partition(task: Task) -> tuple[int, str]:
    subtopology_id, index = task
    return index, subtopology_id


def _least_loaded(members: Iterable[_Member]) -> _Member | None:
    """The first, unless one is less loaded both itself and in its process; and so on from that one."""
    found: _Member | None = None
    for member in members:
        if found is None or (member.process.load() < found.process.load() and member.task_count < found.task_count):
            found = member
    return found
