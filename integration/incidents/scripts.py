"""The incidents: what is done to a service, one coroutine a root cause, and what may befall which service.

Processes are stopped and started within parts of a session, for that is how the timeouts of services are chosen. How long
it is quiet between two incidents does not depend on them (see `play`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from integration.incidents.fleet import Process, Service
from integration.incidents.stage import Outcome, Stage, subject_of
from integration.incidents.truth import Cause, Subject, SubjectKind
from kshim_pipeline.demo.flavours import Reason
from kshim_pipeline.demo.simulated_consumer import Consumer

GROUP = Subject(SubjectKind.GROUP)
MOST_PROCESSES = 9
_LEAST_SLOW_S = 10
"""Nobody calls a shorter poll slow."""


class Script(NamedTuple):
    """`weight` is how often it is played; `suits` whether it can befall a service as it is now."""

    play: Callable[[Stage], Awaitable[Outcome]]
    weight: float
    suits: Callable[[Service], bool]


def _always(service: Service) -> bool:
    return True


def _is_static(service: Service) -> bool:
    return service.style.is_static


def _is_dynamic(service: Service) -> bool:
    return not service.style.is_static


def _watches_polls(service: Service) -> bool:
    return service.specs[0].flavour.watches_polls


def _is_led(service: Service) -> bool:
    """Whether each group has a leader that knows it. Below JoinGroup v9 a replaced static leader does not."""
    return all(any(process.consumers[i].is_leader for process in service.processes) for i in range(len(service.specs)))


async def one_by_one_start(stage: Stage, count: int) -> Outcome:
    """A service's first start, its processes apart from each other."""
    for i in range(count):
        if i:
            await stage.sessions(0.1, 0.7)
        stage.start()
    await stage.settled()
    return Outcome(Cause.ONE_BY_ONE_START, f"{count} processes", GROUP)


async def rolling_deploy(stage: Stage) -> Outcome:
    """One process after the other is replaced."""
    service = stage.service
    service.release += 1
    is_surge = not service.style.is_static and service.style.is_pod and stage.rng.random() < 0.5
    is_careful = stage.rng.random() < 0.6
    for process in list(service.processes):
        if is_surge:
            stage.start(slot=process.slot)
            await stage.settled()
            await stage.close(process)
        else:
            await stage.close(process)
            await stage.sessions(0.08, 0.5)
            stage.start_successor(process)
        if is_careful:
            await stage.settled()
        await stage.sessions(0.03, 0.3)
    await stage.settled()
    return Outcome(Cause.DEPLOY, "new before old" if is_surge else "old before new", GROUP)


async def recreate_deploy(stage: Stage) -> Outcome:
    """All end, then all start."""
    service = stage.service
    service.release += 1
    old = list(service.processes)
    await asyncio.gather(*(stage.close(process) for process in old))
    await stage.sessions(0.1, 0.6)
    for process in old:
        stage.start_successor(process)
        await stage.sessions(0.0, 0.2)
    await stage.settled()
    return Outcome(Cause.DEPLOY, "all at once", GROUP)


async def restart(stage: Stage) -> Outcome:
    """One process ends in an orderly way and is back soon."""
    process = stage.any_process()
    await stage.close(process)
    await stage.sessions(0.1, 0.6)
    back = stage.start_again(process) if stage.rng.random() < 0.6 else stage.start_successor(process)
    await stage.settled()
    cause = Cause.STATIC_RESTART if stage.service.style.is_static else Cause.RESTART
    others = (back,) if back.client == process.client else ()
    return Outcome(cause, "same name" if others else "new name", subject_of(process, *others))


async def crash_loop(stage: Stage) -> Outcome:
    """A process dies soon after each start."""
    process = stage.any_process()
    lives = [process]
    for _ in range(stage.rng.randrange(2, 6)):
        stage.crash(lives[-1])
        await stage.sessions(0.08, 0.6)
        lives.append(stage.start_again(lives[-1]))
        if stage.rng.random() < 0.7:
            await stage.stable_or(lives[-1], 1.3 * stage.session_s)
        await stage.sessions(0.05, 0.5)
    gives_up = stage.rng.random() < 0.4
    if gives_up:
        stage.crash(lives[-1])
        await stage.sessions(1.2, 1.2)
    await stage.settled()
    return Outcome(Cause.CRASH_LOOP, "gives up" if gives_up else "mended", subject_of(*lives))


async def flapping(stage: Stage) -> Outcome:
    """A process comes and goes, in an orderly way each time."""
    lives = [stage.any_process()]
    for _ in range(stage.rng.randrange(2, 6)):
        await stage.close(lives[-1])
        await stage.sessions(0.1, 0.6)
        lives.append(stage.start_again(lives[-1]))
        await stage.stable_or(lives[-1], stage.session_s)
        await stage.sessions(0.1, 0.6)
    await stage.settled()
    return Outcome(Cause.FLAPPING, f"{len(lives) - 1} times", subject_of(*lives))


async def poll_too_late(stage: Stage) -> Outcome:
    """A consumer takes longer over its records than it may between two polls, perhaps twice."""
    process = stage.blame(stage.any_process())
    index = stage.rng.randrange(len(process.consumers))
    rounds = stage.rng.choice((1, 1, 2))
    for _ in range(rounds):
        extra = stage.rng.uniform(1.25, 1.6) if stage.service.style.is_static else stage.rng.uniform(0.2, 0.9)
        process.consumers[index].be_busy(stage.rebalance_s + extra * stage.session_s)
        await asyncio.sleep(stage.rebalance_s + extra * stage.session_s + 0.1)
        await stage.settled()
        await stage.sessions(0.1, 0.3)
    group = (stage.service.groups[index],)
    return Outcome(Cause.SLOW_POLL, f"max.poll exceeded {rounds} times", subject_of(process), group)


async def rejoin_late(stage: Stage) -> Outcome:
    """A consumer is at its records when the group rebalances for another reason, and keeps all waiting."""
    index = stage.rng.randrange(len(stage.service.specs))
    leader, _ = stage.leader(index)
    process = stage.blame(stage.rng.choice([process for process in stage.service.processes if process is not leader]))
    least_s, most_s = stage.real_s(_LEAST_SLOW_S), 0.9 * stage.rebalance_s
    duration_s = least_s * (most_s / least_s) ** stage.rng.random()
    process.consumers[index].be_busy(duration_s)
    await asyncio.sleep(stage.rng.uniform(0.02, 0.1) * duration_s)
    trigger = await _disturb(stage, index, spare=(process,))
    await asyncio.sleep(duration_s)
    await stage.settled()
    groups = (stage.service.groups[index],)
    return Outcome(Cause.SLOW_POLL, f"late after {trigger.variant}", subject_of(process), groups, trigger)


async def slow_leader(stage: Stage) -> Outcome:
    """The leader takes its time over the assignment; with too much of it, it is expelled."""
    index = stage.rng.randrange(len(stage.service.specs))
    process, consumer = stage.leader(index)
    stage.blame(process)
    is_expelled = stage.rng.random() < 0.3
    duration_s = stage.session_s * (stage.rng.uniform(1.2, 1.6) if is_expelled else stage.rng.uniform(0.45, 0.8))
    consumer.assignor_delay_s = duration_s
    trigger = await _disturb(stage, index, spare=(process,))
    await asyncio.sleep(duration_s)
    await stage.settled()
    how = "expelled" if is_expelled else "kept waiting"
    groups = (stage.service.groups[index],)
    return Outcome(Cause.SLOW_LEADER, f"{how} after {trigger.variant}", subject_of(process), groups, trigger)


async def _disturb(stage: Stage, group_index: int, *, spare: tuple[Process, ...]) -> Outcome:
    """Let a group rebalance for a harmless reason: somebody comes, somebody goes, or the topic grew."""
    service = stage.service
    ways = ["topic"]
    if len(service.specs) == 1:
        ways.append("arrival")
        if not service.style.is_static and len(service.processes) > len(spare) + 1:
            ways.append("departure")
    match stage.rng.choice(ways):
        case "arrival":
            return Outcome(Cause.SCALE_UP, "an arrival", _subject_of_all([stage.start()]))
        case "departure":
            goes = stage.rng.choice([process for process in service.processes if process not in spare])
            stage.begin_to_close(goes)
            return Outcome(Cause.SCALE_DOWN, "a departure", _subject_of_all([goes]))
        case _:
            await stage.grow_topic(group_index)
            stage.leader(group_index)[1].rejoin(Reason.METADATA_CHANGED)
            return Outcome(Cause.PARTITIONS_ADDED, "a topic grew", GROUP)


async def killed(stage: Stage) -> Outcome:
    """A process ends without a word."""
    process = stage.any_process()
    stage.crash(process)
    ways = ["gone", "gone", "late"] if stage.service.style.is_static else ["gone", "gone", "soon", "soon", "late"]
    if stage.service.style.is_pod:
        ways.append("elsewhere")
    others: tuple[Process, ...] = ()
    way = stage.rng.choice(ways)
    if way in ("soon", "late"):
        await stage.sessions(*((0.1, 0.6) if way == "soon" else (1.2, 1.6)))
        others = (stage.start_again(process),)
    elif way == "elsewhere":
        await stage.sessions(0.2, 1.5)
        stage.start(slot=process.slot)
    await stage.sessions(1.2, 1.2)
    await stage.settled()
    return Outcome(Cause.KILLED, way, subject_of(process, *others))


async def paused(stage: Stage) -> Outcome:
    """A process stands still for longer than its session."""
    process = stage.blame(stage.any_process())
    duration_s = stage.rng.uniform(1.2, 1.8) * stage.session_s
    process.stall(duration_s)
    await asyncio.sleep(duration_s + 0.3 * stage.session_s)
    await stage.settled()
    return Outcome(Cause.PAUSED, f"{duration_s:.1f} s", subject_of(process))


async def scale_up(stage: Stage) -> Outcome:
    """New processes join those that are there."""
    new: list[Process] = []
    for i in range(stage.rng.randrange(1, 4)):
        if i:
            await stage.sessions(0.05, 0.6)
        new.append(stage.start())
    await stage.settled()
    return Outcome(Cause.SCALE_UP, f"by {len(new)}", _subject_of_all(new))


async def scale_down(stage: Stage) -> Outcome:
    """Processes are no longer wanted."""
    processes = stage.service.processes
    count = stage.rng.randrange(1, max(2, len(processes) // 2))
    gone = stage.rng.sample(processes, count)
    for i, process in enumerate(gone):
        if i:
            await stage.sessions(0.0, 0.4)
        await stage.close(process)
    await stage.settled()
    await stage.sessions(0.1, 0.1)
    await stage.settled()
    return Outcome(Cause.SCALE_DOWN, f"by {len(gone)}", _subject_of_all(gone))


async def partitions_added(stage: Stage) -> Outcome:
    """A topic grows; the leader notices with its next look at the metadata."""
    index = stage.rng.randrange(len(stage.service.specs))
    await stage.grow_topic(index)
    await stage.sessions(0.05, 0.3)
    _, leader = stage.leader(index)
    leader.rejoin(Reason.METADATA_CHANGED)
    return await _rejoined(stage, index, leader, Outcome(Cause.PARTITIONS_ADDED, "", GROUP))


async def subscription_changed(stage: Stage) -> Outcome:
    """One consumer asks for other topics than before."""
    process = stage.any_process()
    index = stage.rng.randrange(len(process.consumers))
    consumer = process.consumers[index]
    ordinary = consumer.spec.topics
    topics = ordinary if consumer.topics != ordinary else (*ordinary, f"{stage.service.name}-extra")
    consumer.rejoin(Reason.SUBSCRIPTION_CHANGED, topics=topics)
    return await _rejoined(stage, index, consumer, Outcome(Cause.SUBSCRIPTION_CHANGED, "", subject_of(process)))


async def rebalance_enforced(stage: Stage) -> Outcome:
    """The application asks for a rebalance. Only the leader's wish is always heard."""
    index = stage.rng.randrange(len(stage.service.specs))
    process, leader = stage.leader(index)
    leader.rejoin(Reason.ENFORCED)
    return await _rejoined(stage, index, leader, Outcome(Cause.REBALANCE_ENFORCED, "", subject_of(process)))


async def _rejoined(stage: Stage, index: int, consumer: Consumer, outcome: Outcome) -> Outcome:
    generation_id = consumer.generation_id
    await consumer.next_generation(generation_id)
    await stage.settled()
    return outcome._replace(groups=(stage.service.groups[index],))


async def duplicate_instance(stage: Stage) -> Outcome:
    """Two processes have the same instance id, each is restarted when the other takes its place."""
    service = stage.service
    first = stage.blame(stage.any_process())
    rival = Process(first.slot, first.client_id, first.instance_id, stage.rng.choice(service.hosts))
    while rival.host == first.host:
        rival.host = stage.rng.choice(service.hosts)
    lives = [first]
    looks = [rival, first]
    for i in range(stage.rng.randrange(3, 7)):
        current = lives[-1]
        lives.append(stage.start(like=looks[i % 2]))
        await stage.ended(current)
        await stage.sessions(0.1, 0.5)
    await stage.settled()
    return Outcome(Cause.DUPLICATE_INSTANCE, f"{len(lives) - 1} times", subject_of(*lives))


def _subject_of_all(processes: list[Process]) -> Subject:
    ids = tuple(member_id for process in processes for member_id in process.member_ids())
    return Subject(SubjectKind.CLIENTS, tuple(sorted(process.client for process in processes)), None, ids)


def _has(least: int) -> Callable[[Service], bool]:
    return lambda service: len(service.processes) >= least


def _all(*suits: Callable[[Service], bool]) -> Callable[[Service], bool]:
    return lambda service: all(suit(service) for suit in suits)


# fmt: off
SCRIPTS = (
    Script(rolling_deploy,       6, _has(2)),
    Script(recreate_deploy,      3, _all(_is_dynamic, _has(2))),
    Script(restart,              6, _has(3)),
    Script(crash_loop,           5, _has(2)),
    Script(flapping,             5, _all(_is_dynamic, _has(2))),
    Script(poll_too_late,        5, _all(_watches_polls, _has(2))),
    Script(rejoin_late,          5, _all(_is_led, _has(2))),
    Script(slow_leader,          6, _all(_is_led, _has(2))),
    Script(killed,               8, _has(2)),
    Script(paused,               6, _has(2)),
    Script(scale_up,             6, lambda service: len(service.processes) < MOST_PROCESSES),
    Script(scale_down,           6, _all(_is_dynamic, _has(3))),
    Script(partitions_added,     4, _is_led),
    Script(subscription_changed, 4, _has(1)),
    Script(rebalance_enforced,   2, _all(_is_led, lambda service: service.specs[0].flavour.gives_reasons)),
    Script(duplicate_instance,   4, _all(_is_static, _has(2))),
)
# fmt: on
