"""One run: found by chance under a seed, or played again from its script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import Event
from tests.simulation.churn import Churn, Plan
from tests.simulation.finale import settle, silence
from tests.simulation.network import Faults, Network
from tests.simulation.script import Input, Script, Setting
from tests.simulation.violation import Violation
from tests.simulation.world import Call, MakeCoordinator, World

_FOREVER_MS = 1 << 60

Trace = Callable[[Input | None, Call | None, list[Call], list[Event]], None]


class Found(NamedTuple):
    """What a run did and met. `end_steps` are those of its end; `violation` None: all was well."""

    seed: int
    steps: int
    end_steps: int
    faults: Counter[str]
    coverage: Counter[tuple[str, str, str]]
    violation: Violation | None
    script: Script


class Run:
    """A seed's setting, drawn first, so that it does not depend on what happens."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        topics = {"t": rng.randrange(1, 5), "u": rng.randrange(1, 4)}
        level = rng.choice((0.0, 0.5, 1.0, 1.0, 3.0))
        self.faults = Faults(
            lose_request=0.02 * level,
            lose_reply=0.02 * level,
            repeat=0.02 * level,
            late=0.02 * level,
            delay_ms=rng.choice((2, 20, 200)),
            slow_delay_ms=4_000,
            slow=0.02 * level,
            slow_leader=rng.choice((0.0, 0.2, 0.6)),
        )
        self.plan = Plan(rng, topics)
        self.setting = Setting(
            config={
                "group_min_session_timeout_ms": 100,
                "group_initial_rebalance_delay_ms": rng.choice((0, 0, 0, 200, 3_000)),
                "group_max_size": rng.choice((2_147_483_647, 2_147_483_647, 2_147_483_647, 4, 2)),
                "offsets_retention_minutes": rng.choice((1, 1, 2)),
                "offsets_retention_check_interval_ms": rng.choice((3_000, 20_000, 60_000)),
                "offsets_topic_num_partitions": rng.choice((1, 2, 5)),
            },
            topics=topics,
            is_through_codecs=rng.random() < 0.1,
        )


def simulate(
    seed: int, steps: int, make_coordinator: MakeCoordinator = GroupCoordinator, trace: Trace | None = None
) -> Found:
    """Run a seed for at least `steps` steps, and then its end."""
    run = Run(seed)
    world = World(run.setting, {}, make_coordinator, trace)
    network = Network(world, run.rng, run.faults)
    violation = None
    churn_steps = None
    try:
        Churn(network, run.plan)
        while world.steps < steps:
            network.turn(_FOREVER_MS)
        churn_steps = world.steps
        _finish(world, network)
    except Violation as found:
        violation = found
        network.inputs.append(Input(len(network.inputs) + 1, world.now_ms, "wait"))  # it may have been a timer's
    script = Script(run.setting, world.actors, tuple(network.inputs))
    steps = world.steps if churn_steps is None else churn_steps
    return Found(seed, steps, world.steps - steps, world.faults, world.coverage, violation, script)


def _finish(world: World, network: Network) -> None:
    """Faults end; then the finale, as inputs of their own, so that they can be played again."""
    clients = {name: (client.basis, client.topics) for name, client in network.clients.items() if client.is_running}
    for verb, detail in (("settle", {"clients": clients}), ("silence", {})):
        what = Input(len(network.inputs) + 1, world.now_ms, verb, detail=detail)
        network.inputs.append(what)
        _end(world, what)


def _end(world: World, what: Input) -> None:
    world.move_to(what.at_ms)
    if world.trace is not None:
        world.trace(what, None, [], [])
    if what.verb == "settle":
        settle(world, what.detail)
    else:
        silence(world)


def play(
    script: Script, make_coordinator: MakeCoordinator = GroupCoordinator, trace: Trace | None = None
) -> Violation | None:
    """Give a script's inputs to a new coordinator. Returns what was found, None when all was well."""
    world = World(script.setting, dict(script.actors), make_coordinator, trace)
    try:
        for what in script.inputs:
            if what.verb in ("settle", "silence"):
                _end(world, what)
            else:
                world.apply(what)
    except Violation as found:
        return found
    return None
