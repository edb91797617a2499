"""Plays a number of incidents on a fleet, many services at a time, and writes down the truth about each."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from integration.incidents.clock import Clock, Pace
from integration.incidents.fleet import Fleet, NotSettled, Service
from integration.incidents.scripts import SCRIPTS, Script, one_by_one_start
from integration.incidents.stage import Outcome, Stage
from integration.incidents.topics import Topics
from integration.incidents.truth import Cause, Late, Subject, SubjectKind, Truth, TruthFile
from kshim_pipeline.demo.connection import Address

_QUIET_S = (120, 600)
"""How long it is quiet between two incidents of a service, by the fleet's time, whatever its timeouts are."""

_HOST_SHARE = 0.05
"""Of all incidents, those of whole hosts."""

_HOSTS_AT_A_TIME = 4
_HOST_SERVICES = range(2, 6)
"""So many services on a host are taken out of play together."""

_HOSTS_LOOK_S = (0.5, 1.5)

_LATE_LOOK_S = 0.1
TOO_LATE_S = 2.0
"""A fifth of the shortest session, by the fleet's time: from here on, scripts no longer do what they say."""

_ASK_S = 0.2
_CLOSE_S = 5.0


class Plan(NamedTuple):
    """What is played: `rate` times as fast as real time."""

    seed: int
    service_count: int
    incident_count: int
    rate: int


class Played(NamedTuple):
    """What a run came to.

    `latest_s` is the longest time that this process did not get to run when it was due, `slowest_answer_s` the longest
    that the broker took over a request that needs no work, both in real time, as `seconds` is.
    """

    incident_count: int
    accident_count: int
    failed_count: int
    seconds: float
    latest_s: float
    slowest_answer_s: float
    clock: Clock


def play(
    address: Address,
    truth: Path,
    plan: Plan,
    pace: Pace,
    *,
    prefix: str = "",
    scripts: tuple[Script, ...] = SCRIPTS,
    tell: Callable[[str], None] = lambda line: None,
) -> Played:
    """Play on the broker at `address`; `truth` is overwritten. Raises ConnectionGone, OSError."""

    async def run() -> Played:
        topics = await Topics.open(address)
        await topics.create({})
        clock = await Clock.of(topics, pace, plan.rate)
        file = TruthFile(truth)
        fleet = Fleet(
            address,
            clock,
            seed=plan.seed,
            service_count=plan.service_count,
            prefix=prefix,
            on_accident=file.add_accident,
        )
        rng = random.Random(plan.seed + 1)
        return await _Play(fleet, topics, file, rng, plan.incident_count, scripts, tell).run()

    return asyncio.run(run())


class _Play:
    def __init__(
        self,
        fleet: Fleet,
        topics: Topics,
        truth: TruthFile,
        rng: random.Random,
        incident_count: int,
        scripts: tuple[Script, ...],
        tell: Callable[[str], None],
    ) -> None:
        self._fleet = fleet
        self._truth = truth
        self._rng = rng
        self._scripts = scripts
        self._tell = tell
        self._topics = topics
        self._wanted = incident_count
        self._begun = 0
        self._hosts_begun = 0
        self._written = 0
        self._failed = 0
        self._latest_s = 0.0
        self._slowest_answer_s = 0.0

    async def run(self) -> Played:
        began = time.monotonic()
        fleet = self._fleet
        await self._topics.create(fleet.partition_counts)
        watches = [asyncio.create_task(self._watch_own_lateness()), asyncio.create_task(self._watch_answers())]
        try:
            hosts = [asyncio.create_task(self._play_on_hosts()) for _ in range(_HOSTS_AT_A_TIME)]
            await asyncio.gather(
                *(self._play_on(service, size) for service, size in zip(fleet.services, fleet.sizes, strict=True))
            )
            await asyncio.gather(*hosts)
            self._truth.end(fleet.clock.now_ms())
            # So that what follows from the last incidents is seen.
            await asyncio.sleep(max(service.longest_s for service in fleet.services))
            await self._close_all()
        finally:
            for watch in watches:
                watch.cancel()
            for service in fleet.services:
                for process in service.processes:
                    process.crash()
            for process in fleet.vanished:
                process.crash()
            self._topics.close()
            self._truth.close()
        return Played(
            self._written,
            self._truth.accident_count,
            self._failed,
            time.monotonic() - began,
            self._latest_s,
            self._slowest_answer_s,
            fleet.clock,
        )

    async def _close_all(self) -> None:
        """All leave, unless that takes too long: sessions that run out would look like hosts that stalled."""
        processes = [process for service in self._fleet.services for process in service.processes]
        closing = [asyncio.create_task(process.close()) for process in processes]
        _, late = await asyncio.wait(closing, timeout=_CLOSE_S)
        for task in late:
            task.cancel()

    async def _play_on(self, service: Service, size: int) -> None:
        rng = random.Random(self._rng.random())
        await asyncio.sleep(self._fleet.clock.real_s(rng.uniform(0, _QUIET_S[1])))
        async with service.lock:
            stage = self._stage(service, rng)
            if not await self._one(service, one_by_one_start(stage, size)):
                return
        while self._begun < self._wanted:
            async with service.lock:
                await self._quiet(service, rng)
                if self._begun >= self._wanted:
                    return
                script = self._draw(service, rng)
                stage = self._stage(service, rng)
                if not await self._one(service, script.play(stage)):
                    return

    async def _play_on_hosts(self) -> None:
        rng = random.Random(self._rng.random())
        while self._begun < self._wanted:
            await asyncio.sleep(rng.uniform(*_HOSTS_LOOK_S))
            if self._hosts_begun + 1 > self._begun * _HOST_SHARE:
                continue
            host = self._crowded_host(rng)
            if host is None:
                continue
            self._hosts_begun += 1
            self._fleet.closed_hosts.add(host)
            # In the order of the fleet, so that two of these never wait for each other. With all of them locked, nobody else is on that host, nor comes there, while it stands still.
            locked = [service for service in self._fleet.services if host in self._places(service)]
            for service in locked:
                await service.lock.acquire()
            try:
                for service in locked:
                    await self._quiet(service, rng)
                if any(host in self._places(service) for service in self._fleet.services if service not in locked):
                    self._hosts_begun -= 1  # somebody came there meanwhile
                    continue
                await self._stall_host(host, locked, rng)
            finally:
                self._fleet.closed_hosts.discard(host)
                for service in locked:
                    service.lock.release()

    def _crowded_host(self, rng: random.Random) -> str | None:
        """A host with processes of several services, none of which is only starting yet."""
        services = self._fleet.services
        crowded = [
            host
            for host in self._fleet.hosts
            if len(there := [service for service in services if host in self._places(service)]) in _HOST_SERVICES
            and all(service.idle_since > 0 for service in there)
        ]
        open_hosts = [host for host in crowded if host not in self._fleet.closed_hosts]
        return rng.choice(open_hosts) if open_hosts else None

    @staticmethod
    def _places(service: Service) -> set[str]:
        return {process.host for process in service.processes}

    async def _stall_host(self, host: str, services: list[Service], rng: random.Random) -> None:
        """What runs there stands still, or is gone for good."""
        stalled = [(service, process) for service in services for process in service.processes if process.host == host]
        concerned = [service for service in services if any(owner is service for owner, _ in stalled)]
        if len(concerned) < 2:
            return
        self._begun += 1
        start_ms = self._fleet.clock.now_ms()
        is_lost = rng.random() < 0.4
        longest_s = max(service.session_s for service in concerned)
        duration_s = rng.uniform(1.15, 1.5) * longest_s
        for service, process in stalled:
            process.is_blamed = True
            if is_lost:
                process.vanish()
                self._fleet.vanished.append(process)
                service.processes.remove(process)
            else:
                process.stall(duration_s)
        await asyncio.sleep(max(duration_s, 1.2 * longest_s) + 0.3)
        subject = Subject(SubjectKind.HOST, tuple(sorted(process.client for _, process in stalled)), host)
        try:
            for service in concerned:
                await service.settled()
        except NotSettled as error:
            self._fail(f"host {host}", error)
            return
        groups = tuple(group for service in concerned for group in service.groups)
        ids = tuple(member_id for _, process in stalled for member_id in process.member_ids())
        outcome = Outcome(Cause.HOST_STALLED, "lost" if is_lost else "stalled", subject._replace(member_ids=ids))
        self._write(outcome, groups, start_ms)
        for service in concerned:
            self._calm(service)

    async def _one(self, service: Service, script: Awaitable[Outcome]) -> bool:
        """Play one; whether the service is still good for another."""
        self._begun += 1
        start_ms = self._fleet.clock.now_ms()
        try:
            outcome = await script
        except NotSettled as error:
            self._fail(service.name, error)
            return False
        self._write(outcome, outcome.groups or service.groups, start_ms)
        self._calm(service)
        return True

    def _calm(self, service: Service) -> None:
        service.idle_since = time.monotonic()
        for process in service.processes:
            process.is_blamed = False

    async def _quiet(self, service: Service, rng: random.Random) -> None:
        least_s, most_s = map(self._fleet.clock.real_s, _QUIET_S)
        until = service.idle_since + least_s * (most_s / least_s) ** rng.random()
        await asyncio.sleep(max(0.0, until - time.monotonic()))

    def _draw(self, service: Service, rng: random.Random) -> Script:
        fitting = [script for script in self._scripts if script.suits(service)]
        return rng.choices(fitting, [script.weight for script in fitting])[0]

    def _stage(self, service: Service, rng: random.Random) -> Stage:
        return Stage(self._fleet, service, rng, self._topics.grow)

    def _write(self, outcome: Outcome, groups: tuple[str, ...], start_ms: int) -> None:
        self._written += 1
        truth = Truth(
            self._written, outcome.cause, outcome.variant, groups, outcome.subject, start_ms, self._fleet.clock.now_ms()
        )
        self._truth.add(truth)
        if (trigger := outcome.trigger) is not None:
            done = truth._replace(cause=trigger.cause, variant=trigger.variant, subject=trigger.subject)
            self._truth.add_trigger(done)
        self._tell(f"{self._written:5} {outcome.cause.value:22} {outcome.variant:30} {', '.join(groups)}")

    def _fail(self, where: str, error: Exception) -> None:
        self._failed += 1
        self._tell(f"      {where} did not settle: {error!r}")

    async def _watch_own_lateness(self) -> None:
        while True:
            before, before_ms = time.monotonic(), self._fleet.clock.now_ms()
            await asyncio.sleep(_LATE_LOOK_S)
            late_s = time.monotonic() - before - _LATE_LOOK_S
            self._latest_s = max(self._latest_s, late_s)
            if late_s > self._fleet.clock.real_s(TOO_LATE_S):
                self._truth.add_late(Late(before_ms, self._fleet.clock.now_ms()))

    async def _watch_answers(self) -> None:
        """Time a request that needs no work, so that a slow broker can be told from a slow player."""
        while True:
            await asyncio.sleep(_ASK_S)
            self._slowest_answer_s = max(self._slowest_answer_s, await self._topics.answer_s())
