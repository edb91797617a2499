"""Random streams groups, and what the classes of a real Kafka say of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from integration.assignors.kafka_classes import KafkaClasses
from kshim.coordinator.groups.streams.task_assignor import AssignedTasks, AssignorMember, SubtopologyTasks, Task
from kshim.coordinator.hash_order import timeline_order


def assigned_by_kafka(kafka: KafkaClasses, group: StreamsGroup) -> dict[str, AssignedTasks]:
    """What Kafka's assignor has each member run."""
    members = [
        {
            "id": member_id,
            "process": member.process_id,
            "active": sorted(member.active_tasks),
            "standby": sorted(member.standby_tasks),
            "offsets": [(*task, offset) for task, offset in member.task_offsets.items()],
        }
        for member_id, member in group.members.items()
    ]
    subtopologies = {
        name: {"tasks": each.task_count, "stateful": each.is_stateful} for name, each in group.subtopologies.items()
    }
    question = {
        "about": "streams members",
        "members": members,
        "subtopologies": subtopologies,
        "standbys": group.standby_replicas,
    }
    return {
        member_id: AssignedTasks(_tasks(tasks["active"]), _tasks(tasks["standby"]))
        for member_id, tasks in kafka.ask(question).items()
    }


def _tasks(pairs: Iterable[list[Any]]) -> frozenset[Task]:
    return frozenset((subtopology_id, index) for subtopology_id, index in pairs)


@dataclass
class StreamsGroup:
    """What an assignor is asked. `members` in the order in which they joined."""

    members: dict[str, AssignorMember]
    subtopologies: dict[str, SubtopologyTasks]
    standby_replicas: int

    def in_order(self) -> dict[str, AssignorMember]:
        """The members in the order of Kafka's table of them, in which each is put once: groups put theirs again."""
        return {
            member_id: self.members[member_id] for member_id in timeline_order(self.members, most=len(self.members) - 1)
        }

    def change(self, source: random.Random, target: Mapping[str, AssignedTasks]) -> None:
        """Members have what they were to run, or not yet all of it; then some leave, others join, topics grow."""
        for member_id, tasks in target.items():
            self.members[member_id] = self._with(source, self.members[member_id], tasks)
        for member_id in list(self.members):
            if len(self.members) > 1 and source.random() < 0.2:
                left = self.members.pop(member_id)
                if source.random() < 0.5:  # a process that comes back has the state of its tasks on disk
                    offsets = {task: source.randint(0, 99) for task in left.active_tasks | left.standby_tasks}
                    self.members[_member_id(source)] = AssignorMember(left.process_id, task_offsets=offsets)
        self.join(source, source.randint(0, 2))
        if source.random() < 0.2:
            name = source.choice(sorted(self.subtopologies))
            grown = self.subtopologies[name].task_count + source.randint(1, 3)
            self.subtopologies[name] = self.subtopologies[name]._replace(task_count=grown)
        if source.random() < 0.1:
            self.standby_replicas = source.randint(0, 4)

    def join(self, source: random.Random, count: int) -> None:
        """New members, of processes that are there or of others."""
        processes = [member.process_id for member in self.members.values()]
        for _ in range(count):
            if not processes or source.random() < 0.5:
                processes.append(_process_id(source))
            self.members[_member_id(source)] = AssignorMember(source.choice(processes))

    @staticmethod
    def _with(source: random.Random, member: AssignorMember, tasks: AssignedTasks) -> AssignorMember:
        active, standby = tasks
        if source.random() < 0.2:  # another member has not given up what this one waits for
            active = frozenset(task for task in active if source.random() < 0.7)
        offsets = {task: source.randint(0, 9) for task in active | standby if source.random() < 0.3}
        return member._replace(active_tasks=active, standby_tasks=standby, task_offsets=offsets)


def random_group(source: random.Random) -> StreamsGroup:
    """A group that has just begun: nobody has any task."""
    subtopologies = {
        str(number): SubtopologyTasks(source.randint(1, 8), source.random() < 0.6)
        for number in range(source.choice((1, 2, 3, 4, 14)))
    }
    group = StreamsGroup({}, subtopologies, source.choice((0, 0, 1, 2, 4)))
    group.join(source, source.choice((1, 2, 3, 5, 8, 20)))
    return group


def _member_id(source: random.Random) -> str:
    return f"{source.getrandbits(128):032x}"


def _process_id(source: random.Random) -> str:
    return f"{source.getrandbits(64):016x}"
