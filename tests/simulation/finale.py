"""How every run ends: without faults honest clients find to Stable, and when they fall silent everything goes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from kshim.coordinator.groups.classic.state import GroupState
from tests.simulation.client import Client, Phase
from tests.simulation.network import CALM, Network
from tests.simulation.violation import Violation
from tests.simulation.world import World

_FIRST_SERIAL = 1_000_000
_LOOK_EVERY_MS = 1_000
_LASTS_MS = 10_000
"""Once Stable a group must stay so; this is longer than any heartbeat takes to come round."""


def settle(world: World, detail: Mapping[str, Any]) -> None:
    """Clients go on with what they remember and nothing goes wrong any more: each group becomes Stable with them.

    `detail`: `clients` maps actors to (basis, topics). Raises Violation.
    """
    world.calm()
    trace, world.trace = world.trace, None  # the reader of a transcript is to see one line
    network = Network(world, Random(0), CALM, first_serial=_FIRST_SERIAL)
    for number, (name, (basis, topics)) in enumerate(detail["clients"].items()):
        client = Client(world.actors[name], topics, world.now_ms)
        answered = world.answered_basis(name, basis)  # fixed now: a late answer must not change what it acts upon
        client.resume(answered, world.memory(name, answered), world.now_ms)
        network.add(client, world.now_ms + number)
    limit_ms = world.now_ms + _settle_limit_ms(world)
    looks_ms = range(world.now_ms + _LOOK_EVERY_MS, limit_ms, _LOOK_EVERY_MS)
    settled_ms = next((at_ms for at_ms in looks_ms if _is_settled(world, network, at_ms)), limit_ms)
    _run(network, settled_ms + _LASTS_MS)
    _require_settled(world, network)
    world.compare()
    world.trace = trace


def _run(network: Network, until_ms: int) -> None:
    while network.turn(until_ms):
        pass
    network.world.move_to(until_ms)


def _is_settled(world: World, network: Network, at_ms: int) -> bool:
    """Whether all is well at that time."""
    _run(network, at_ms)
    try:
        _require_settled(world, network)
    except Violation:
        return False
    return True


def _settle_limit_ms(world: World) -> int:
    """Ghosts may hold up a session, then a rebalance, then their own Join; clients may wait out a backoff."""
    longest_ms = max((max(a.session_timeout_ms, a.rebalance_timeout_ms) for a in world.actors.values()), default=0)
    return 6 * longest_ms + 2 * world.config.group_initial_rebalance_delay_ms + 20_000


def _require_settled(world: World, network: Network) -> None:
    groups: dict[str, list[Client]] = {}
    for client in network.clients.values():
        if client.is_running:
            groups.setdefault(client.actor.group_id, []).append(client)
    for group_id, clients in groups.items():
        _require_stable(world, group_id, clients)


def _require_stable(world: World, group_id: str, clients: list[Client]) -> None:
    group = world.find_group(group_id)
    if group is None or group.state is not GroupState.STABLE:
        raise Violation("never-stable", f"{group_id} is {group and group.state} with {len(clients)} live members")
    wanted = {client.memory.member_id for client in clients}
    if set(group.members) != wanted:
        raise Violation("never-stable", f"{group_id} has {list(group.members)}, alive are {sorted(wanted)}")
    owners: dict[tuple[str, int], str] = {}
    for client in clients:
        facts = (client.phase, client.memory.generation_id)
        if facts != (Phase.MEMBER, group.generation_id):
            raise Violation("never-stable", f"{client.actor.name}: {facts}, {group_id} is in {group.generation_id}")
        for partition in client.owned:
            if partition in owners:
                raise Violation("partition-twice", f"{partition}: {owners[partition]} and {client.actor.name}")
            owners[partition] = client.actor.name


def silence(world: World) -> None:
    """Nobody says anything any more: groups become Empty, then their offsets and they themselves expire."""
    world.calm()
    longest_ms = max((a.session_timeout_ms + 2 * a.rebalance_timeout_ms for a in world.actors.values()), default=0)
    world.move_to(world.now_ms + 2 * longest_ms + world.config.group_initial_rebalance_delay_ms + 1_000)
    for group_id in sorted(world.group_ids):
        group = world.find_group(group_id)
        if group is not None and (group.state is not GroupState.EMPTY or group.members or group.pending_joins):
            raise Violation("silent-member-stays", f"{group_id} is {group.state} with {list(group.members)}")
    world.compare()
    interval_ms = world.config.offsets_retention_check_interval_ms
    world.move_to(world.now_ms + world.setting.retention_ms + 2 * interval_ms)
    if world.ledger.known:
        raise Violation("group-stays", f"{sorted(world.ledger.known)} have not expired")
    world.compare()
