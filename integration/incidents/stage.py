"""What the scripts of incidents share: chance, waiting, and the processes of the service they are about."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from integration.incidents.fleet import Fleet, Process, Service
from integration.incidents.truth import Cause, Subject, SubjectKind
from kshim_pipeline.demo.simulated_consumer import Consumer

AddPartitions = Callable[[str, int], Awaitable[None]]
"""Topic, and how many partitions it shall have."""

_LOOK_AGAIN_S = 0.02


class Outcome(NamedTuple):
    """What a script did. `groups` None: all of the service. `trigger`: what it did for this to show."""

    cause: Cause
    variant: str
    subject: Subject
    groups: tuple[str, ...] | None = None
    trigger: Outcome | None = None


def subject_of(process: Process, *others: Process) -> Subject:
    """One process, under all the ids that it had, also as `others`: its earlier and later lives."""
    ids = tuple(dict.fromkeys(member_id for life in (process, *others) for member_id in life.member_ids()))
    return Subject(SubjectKind.CLIENT, (process.client,), process.host, ids)


class Stage:
    """One service, for the time of one incident."""

    def __init__(self, fleet: Fleet, service: Service, rng: random.Random, add_partitions: AddPartitions) -> None:
        self.fleet = fleet
        self.service = service
        self.rng = rng
        self.add_partitions = add_partitions
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def session_s(self) -> float:
        """The session timeout of the service's groups."""
        return self.service.session_s

    @property
    def rebalance_s(self) -> float:
        """Their rebalance timeout."""
        return self.service.rebalance_s

    def real_s(self, fleet_s: float) -> float:
        """A duration of the fleet's as it passes here."""
        return self.fleet.clock.real_s(fleet_s)

    async def sessions(self, least: float, most: float) -> None:
        """Wait for some part of a session timeout."""
        await asyncio.sleep(self.rng.uniform(least, most) * self.session_s)

    async def settled(self) -> None:
        """Wait until all groups are. Raises NotSettled."""
        await self.service.settled()

    def any_process(self) -> Process:
        """Somebody."""
        return self.rng.choice(self.service.processes)

    def blame(self, process: Process) -> Process:
        """Say that this process may be expelled."""
        process.is_blamed = True
        return process

    def start(self, *, slot: int | None = None, like: Process | None = None) -> Process:
        """Start a process; it is blamed, for all that happens to it belongs to the incident."""
        return self.blame(self.fleet.start_process(self.service, slot=slot, like=like))

    def start_again(self, process: Process) -> Process:
        """Start the same container again: same name, same host."""
        self.forget(process)
        return self.start(like=process)

    def start_successor(self, process: Process) -> Process:
        """Start what a deploy puts in its place: pods get a new name, others keep theirs."""
        self.forget(process)
        if self.service.style.is_pod:
            return self.start(slot=process.slot)
        return self.start(like=process)

    def forget(self, process: Process) -> None:
        """Take a dead process off the list."""
        if process in self.service.processes:
            self.service.processes.remove(process)

    async def close(self, process: Process) -> None:
        """End a process in an orderly way."""
        self.blame(process)
        self.forget(process)
        await process.close()

    def begin_to_close(self, process: Process) -> None:
        """The same, without waiting for its end."""
        task = asyncio.create_task(self.close(process))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def crash(self, process: Process) -> None:
        """End a process at once."""
        self.blame(process)
        self.forget(process)
        process.crash()

    async def ended(self, process: Process) -> None:
        """Wait until all its consumers have ended by themselves."""
        await asyncio.gather(*(consumer.ended() for consumer in process.consumers))
        self.forget(process)

    async def stable_or(self, process: Process, most_s: float) -> None:
        """Wait until it is at work, but not longer than `most_s`."""
        for _ in range(round(most_s / _LOOK_AGAIN_S)):
            if all(consumer.is_stable for consumer in process.consumers):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    def leader(self, group_index: int) -> tuple[Process, Consumer]:
        """Who leads a group that has a leader."""
        for process in self.service.processes:
            if process.consumers[group_index].is_leader:
                return process, process.consumers[group_index]
        raise AssertionError(f"{self.service.groups[group_index]} has no leader")

    async def grow_topic(self, group_index: int) -> None:
        """Add partitions to the topic of a group; nobody has noticed yet."""
        topic = self.service.specs[group_index].topics[0]
        count = self.fleet.partition_counts[topic] + self.rng.randrange(1, 4)
        await self.add_partitions(topic, count)
        self.fleet.partition_counts[topic] = count
