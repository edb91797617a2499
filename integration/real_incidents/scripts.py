"""The incidents: what is done to which processes. A script returns what it was, for the truth; it knows no diagnosis.

Times are as in real deployments, some of them shorter than the service's timeouts and some longer. Several incidents may
befall a service at once: what is played on the whole fleet does not wait for what is played on a service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from integration.incidents.truth import Cause, Subject, SubjectKind
from integration.real_incidents.hosts import Host
from integration.real_incidents.processes import Process
from integration.real_incidents.services import GroupProtocol, Service

GROUP = Subject(SubjectKind.GROUP)


class Stage(Protocol):
    """What scripts need besides their service."""

    hosts: Sequence[Host]

    async def settled(self, service: Service) -> None:
        """Wait until the group is stable with all running processes, or for as long as a rebalance may take."""

    async def create_topic(self, name: str, partition_count: int) -> None:
        """Make a topic."""

    async def add_partitions(self, topic: str, partition_count: int) -> None:
        """Enlarge a topic to so many partitions."""


class Outcome(NamedTuple):
    """What a script did."""

    cause: Cause
    variant: str
    subject: Subject


def _client(process: Process, *others: Process) -> Subject:
    clients = tuple(dict.fromkeys(each.client for each in (process, *others)))
    kind = SubjectKind.CLIENT if len(clients) == 1 else SubjectKind.CLIENTS
    return Subject(kind, clients, process.host.address if kind is SubjectKind.CLIENT else None)


async def _running(service: Service) -> Process:
    """One that runs, as soon as there is one: all may have ended by themselves, and are started again within a second or two."""
    while not (running := [process for process in service.processes if process.is_running]):
        await _seconds(service, 0.1, 0.5)
    return service.rng.choice(running)


async def _seconds(service: Service, least: float, most: float) -> None:
    await asyncio.sleep(service.rng.uniform(least, most))


async def start(stage: Stage, service: Service) -> Outcome:
    """The first start of a service."""
    count = service.rng.choice((2, 3, 3, 4, 5))
    for place in range(count):
        service.start(place)
        await _seconds(service, 0.0, 5.0)
    await stage.settled(service)
    return Outcome(Cause.ONE_BY_ONE_START, f"{count} processes", GROUP)


async def rolling_deploy(stage: Stage, service: Service) -> Outcome:
    """One process after the other is replaced, or first joined by its successor."""
    is_surge = not service.is_static and service.rng.random() < 0.3
    for process in list(service.processes):
        if process not in service.processes:
            continue  # it has ended by itself, and been started again
        if is_surge:
            service.start(process.place + 100 if service.ids == "by place" else process.place)
            await _seconds(service, 1.0, 6.0)
        await process.stop()
        service.drop(process)
        if not is_surge:
            await _seconds(service, 0.3, 4.0)
            service.start(process.place)
        if service.rng.random() < 0.7:
            await stage.settled(service)
        else:
            await _seconds(service, 0.0, 3.0)
    await stage.settled(service)
    return Outcome(Cause.DEPLOY, "new before old" if is_surge else "old before new", GROUP)


async def recreate_deploy(stage: Stage, service: Service) -> Outcome:
    """All end, then all start."""
    return Outcome(Cause.DEPLOY, await _recreate(stage, service), GROUP)


async def deploy_of_an_assignor(stage: Stage, service: Service) -> Outcome:
    """The same, with another assignor."""
    service.change_assignor()
    return Outcome(Cause.ASSIGNOR_CHANGED, await _recreate(stage, service), GROUP)


async def _recreate(stage: Stage, service: Service) -> str:
    places = [process.place for process in service.processes]
    await asyncio.gather(*(process.stop() for process in service.processes))
    service.processes.clear()
    await _seconds(service, 0.5, 5.0)
    for place in places:
        service.start(place)
        await _seconds(service, 0.0, 1.0)
    await stage.settled(service)
    return "all at once"


async def restart(stage: Stage, service: Service) -> Outcome:
    """One process is stopped in good order and started again, within its session timeout."""
    process = service.rng.choice(service.processes)
    await process.stop()
    service.drop(process)
    await _seconds(service, 0.2, 4.0)
    back = service.start(process.place)
    await stage.settled(service)
    cause = Cause.STATIC_RESTART if service.is_static else Cause.RESTART
    return Outcome(cause, "same name" if back.client == process.client else "new name", _client(process))


async def static_stop(stage: Stage, service: Service) -> Outcome:
    """A static member is stopped in good order, and stays away."""
    process = service.rng.choice(service.processes)
    await process.stop()
    service.drop(process)
    await asyncio.sleep(service.session_s + service.rng.uniform(1.0, 4.0))
    await stage.settled(service)
    return Outcome(Cause.STATIC_STOPPED, "scaled down", _client(process))


async def crash_loop(stage: Stage, service: Service) -> Outcome:
    """A process dies soon after each start; its supervisor waits longer each time."""
    process = service.rng.choice(service.processes)
    lives, wait_s = [process], service.rng.uniform(0.3, 1.5)
    for _ in range(service.rng.randrange(3, 6)):
        lives[-1].kill()
        service.drop(lives[-1])
        await asyncio.sleep(wait_s)
        wait_s *= service.rng.choice((1, 2))
        lives.append(service.start(process.place))
        await _seconds(service, 1.5, 8.0)
    await stage.settled(service)
    return Outcome(Cause.CRASH_LOOP, f"{len(lives) - 1} crashes", _client(*lives))


async def kill(stage: Stage, service: Service) -> Outcome:
    """A process is killed for want of memory; it comes back, or does not."""
    process = service.rng.choice(service.processes)
    process.kill()
    service.drop(process)
    comes_back = service.rng.random() < 0.5 or len(service.processes) < 2
    if comes_back:
        await _seconds(service, 0.5, 5.0)
        service.start(process.place)
    await asyncio.sleep(service.session_s)
    await stage.settled(service)
    return Outcome(Cause.KILLED, "comes back" if comes_back else "stays away", _client(process))


async def pause(stage: Stage, service: Service) -> Outcome:
    """A process stands still for longer than its session timeout, and goes on."""
    process = service.rng.choice(service.processes)
    process.pause()
    await asyncio.sleep(service.session_s * service.rng.uniform(1.15, 2.0))
    process.resume()
    await _seconds(service, 0.5, 1.0)
    await stage.settled(service)
    return Outcome(Cause.PAUSED, "", _client(process))


async def slow_work(stage: Stage, service: Service) -> Outcome:
    """A batch takes longer than max.poll.interval.ms."""
    process = await _running(service)
    took_s = service.max_poll_s * service.rng.uniform(1.1, 1.6) + 1
    process.tell(f"work {round(took_s * 1_000)}")
    await asyncio.sleep(took_s + 1)
    await stage.settled(service)
    return Outcome(Cause.SLOW_POLL, "longer than max.poll.interval.ms", _client(process))


async def slow_work_in_a_rebalance(stage: Stage, service: Service) -> Outcome:
    """A batch takes some time while a process is added, and everybody waits for it."""
    process = await _running(service)
    took_s = min(service.max_poll_s * 0.8, service.rng.uniform(6.0, 20.0))
    process.tell(f"work {round(took_s * 1_000)}")
    await _seconds(service, 0.6, 2.0)
    service.start(service.next_place())
    await asyncio.sleep(took_s)
    await stage.settled(service)
    return Outcome(Cause.SLOW_POLL, "all wait for it", _client(process))


async def scale_up(stage: Stage, service: Service) -> Outcome:
    """Processes are added."""
    new = [service.start(service.next_place()) for _ in range(service.rng.randrange(1, 3))]
    await stage.settled(service)
    return Outcome(Cause.SCALE_UP, f"{len(new)}", _clients(new))


async def scale_down(stage: Stage, service: Service) -> Outcome:
    """Processes are stopped for good."""
    gone = service.rng.sample(service.processes, service.rng.randrange(1, max(2, len(service.processes) // 2)))
    for process in gone:
        await process.stop()
        service.drop(process)
    await stage.settled(service)
    return Outcome(Cause.SCALE_DOWN, f"{len(gone)}", _clients(gone))


def _clients(processes: Sequence[Process]) -> Subject:
    return Subject(SubjectKind.CLIENTS, tuple(dict.fromkeys(process.client for process in processes)))


async def add_partitions(stage: Stage, service: Service) -> Outcome:
    """The topic grows; the clients notice when they refresh their metadata."""
    service.partition_count += service.rng.choice((1, 2, 4))
    await stage.add_partitions(service.topic, service.partition_count)
    await asyncio.sleep(service.metadata_max_age_ms / 1_000 + 2)
    await stage.settled(service)
    return Outcome(Cause.PARTITIONS_ADDED, "", GROUP)


async def create_topic(stage: Stage, service: Service) -> Outcome:
    """A topic appears that the subscribed pattern matches."""
    await stage.create_topic(f"{service.name}.{service.rng.getrandbits(24):06x}", 2)
    await asyncio.sleep(service.metadata_max_age_ms / 1_000 + 2)
    await stage.settled(service)
    return Outcome(Cause.TOPIC_CREATED, "", GROUP)


async def flap(stage: Stage, service: Service) -> Outcome:
    """A process subscribes and closes in a loop."""
    place = service.next_place()
    lives: list[Process] = []
    for _ in range(service.rng.randrange(3, 7)):
        lives.append(service.start(place))
        await _seconds(service, 2.0, 5.0)
        await lives[-1].stop()
        service.drop(lives[-1])
        await _seconds(service, 0.3, 3.0)
    await stage.settled(service)
    return Outcome(Cause.FLAPPING, f"{len(lives)} times", _client(*lives))


async def share_the_group_id(stage: Stage, service: Service) -> Outcome:
    """Another application uses the same group id for a topic of its own, and is corrected after a while."""
    topic = f"{service.name}-reports"
    await stage.create_topic(topic, 3)
    intruders = [
        service.start_intruder(host, client_id="reports", instance_id=None, topic=topic)
        for host in service.rng.sample(list(stage.hosts), 2)
    ]
    await _seconds(service, 15.0, 30.0)
    await asyncio.gather(*(process.stop() for process in intruders))
    await stage.settled(service)
    return Outcome(Cause.SHARED_GROUP_ID, "", _clients(intruders))


async def use_an_instance_id_twice(stage: Stage, service: Service) -> Outcome:
    """A second process has the instance id of another; each of both is started again when it ends."""
    process = service.rng.choice(service.processes)
    host = service.rng.choice([each for each in stage.hosts if each is not process.host])
    second = service.start_intruder(host, client_id=process.client_id, instance_id=process.instance_id, topic=None)
    for _ in range(service.rng.randrange(8, 20)):
        await _seconds(service, 0.8, 1.5)
        if not second.is_running:
            second = service.start_intruder(
                host, client_id=process.client_id, instance_id=process.instance_id, topic=None
            )
    second.kill()
    await stage.settled(service)
    return Outcome(Cause.DUPLICATE_INSTANCE, "", Subject(SubjectKind.CLIENT, (process.client,)))


async def enforce_a_rebalance(stage: Stage, service: Service) -> Outcome:
    """The application asks its consumer for a rebalance."""
    process = service.rng.choice(service.processes)
    process.tell("rebalance")
    await _seconds(service, 2.0, 4.0)
    await stage.settled(service)
    return Outcome(Cause.REBALANCE_ENFORCED, "", _client(process))


class Script(NamedTuple):
    """One incident of a service. `weight` is how often it is played; `suits` whether it can befall a service as it is now."""

    play: Callable[[Stage, Service], Awaitable[Outcome]]
    weight: float
    suits: Callable[[Service], bool]


def _has(count: int) -> Callable[[Service], bool]:
    return lambda service: len(service.processes) >= count


def _is_classic(service: Service) -> bool:
    return service.protocol is GroupProtocol.CLASSIC


def _is_quick(service: Service) -> bool:
    return service.max_poll_s <= 60


SCRIPTS: Mapping[str, Script] = {
    "rolling deploy": Script(rolling_deploy, 2, _has(2)),
    "recreate deploy": Script(recreate_deploy, 0.7, _has(2)),
    "deploy of an assignor": Script(deploy_of_an_assignor, 0.8, _has(2)),
    "restart": Script(restart, 1.5, _has(2)),
    "static stop": Script(static_stop, 3, lambda service: service.is_static and _has(3)(service)),
    "crash loop": Script(crash_loop, 1.2, _has(2)),
    "kill": Script(kill, 2, _has(2)),
    "pause": Script(pause, 2, _has(2)),
    "slow work": Script(
        slow_work, 2, lambda service: service.client != "franz-go" and _is_quick(service) and _has(2)(service)
    ),  # franz-go has no max.poll.interval.ms
    "slow work in a rebalance": Script(slow_work_in_a_rebalance, 1.5, _has(2)),
    "scale up": Script(scale_up, 1.2, lambda service: len(service.processes) < 5),
    "scale down": Script(scale_down, 1.2, lambda service: not service.is_static and _has(3)(service)),
    "add partitions": Script(add_partitions, 1, _has(1)),
    "create topic": Script(create_topic, 2, lambda service: service.has_pattern),
    "flap": Script(flap, 0.8, lambda service: not service.is_static and _has(2)(service)),
    "share the group id": Script(share_the_group_id, 0.8, _has(2)),
    "use an instance id twice": Script(
        use_an_instance_id_twice, 2, lambda service: service.is_static and _has(2)(service)
    ),
    "enforce a rebalance": Script(
        enforce_a_rebalance, 2, lambda service: service.client == "java" and _is_classic(service) and _has(2)(service)
    ),  # with the new protocol, enforceRebalance does nothing
}
