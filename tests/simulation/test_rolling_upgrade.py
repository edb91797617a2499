"""Members are restarted one by one with another list of assignors, and no client of a sound broker sees an error."""

from __future__ import annotations

from random import Random

import pytest

from kshim.coordinator.groups.classic.state import GroupState
from tests.simulation.assignors import COOPERATIVE, RANGE
from tests.simulation.churn import STAGES, VERSIONS
from tests.simulation.client import Client, Phase
from tests.simulation.network import Faults, Network
from tests.simulation.script import Actor, Setting
from tests.simulation.world import World

SESSION_MS = 6_000
REBALANCE_MS = 20_000


class Deployment:
    """A group `g` whose members are up- and downgraded while it works. No request is lost, but all take their time."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        setting = Setting(
            config={
                "group_min_session_timeout_ms": 100,
                "group_initial_rebalance_delay_ms": self.rng.choice((0, 3_000)),
                "offsets_retention_minutes": 60,
            },
            topics={"t": 5, "u": 2},
            is_through_codecs=True,
        )
        self.world = World(setting, {})
        self.network = Network(self.world, self.rng, Faults(delay_ms=30))
        self.running: list[Client] = []
        self.names = 0

    def start(self, protocols: tuple[str, ...], instance_id: str | None, kind: str) -> None:
        """One more process."""
        self.names += 1
        actor = Actor(
            f"c{self.names}",
            "g",
            instance_id,
            VERSIONS[kind],
            SESSION_MS,
            REBALANCE_MS,
            protocols,
            subscription_version=1,
            client_id=kind,
        )
        self.world.actors[actor.name] = actor
        client = Client(actor, ("t", "u"), self.world.now_ms)
        self.running.append(client)
        self.network.add(client, self.world.now_ms)

    def restart(self, client: Client, protocols: tuple[str, ...]) -> None:
        """Close one process and start it again: dynamic ones leave, static ones come back in the old one's place."""
        self.running.remove(client)
        self.network.cut(client, self.world.now_ms)
        client.leave()
        client.not_before_ms = self.world.now_ms
        self.network.kick(client, self.world.now_ms)
        self.start(protocols, client.actor.instance_id, client.actor.client_id)

    def pass_ms(self, ms: int) -> None:
        """Let the group work."""
        end_ms = self.world.now_ms + ms
        while self.network.turn(end_ms):
            pass
        self.world.move_to(end_ms)

    def roll_to(self, protocols: tuple[str, ...]) -> None:
        """Restart one after the other, sometimes before the group has come to rest; then let it rest."""
        for client in list(self.running):
            self.restart(client, protocols)
            self.pass_ms(self.rng.choice((50, 700, 5_000)))
        self.pass_ms(3 * REBALANCE_MS)

    def require_well(self) -> None:
        """Stable with everybody, every partition with one owner, and nobody has seen an error."""
        group = self.world.find_group("g")
        assert group is not None
        assert group.state is GroupState.STABLE
        assert {client.phase for client in self.running} == {Phase.MEMBER}
        assert set(group.members) == {client.memory.member_id for client in self.running}
        owned = [partition for client in self.running for partition in client.owned]
        assert sorted(owned) == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("t", 4), ("u", 0), ("u", 1)]
        for client in self.network.clients.values():
            assert client.errors == [], client.actor
        self.world.compare()


@pytest.mark.parametrize("seed", range(12))
def test_two_bounces_lead_from_range_to_cooperative_sticky_without_an_error(seed: int) -> None:
    deployment = Deployment(seed)
    kinds = ("kafka-python", "java", "newest", "librdkafka")
    for number in range(2 + seed % 4):
        instance_id = f"i{number}" if (seed + number) % 3 == 0 else None
        deployment.start((RANGE,), instance_id, kinds[number % len(kinds)])
        deployment.pass_ms(200)
    deployment.pass_ms(2 * REBALANCE_MS)
    deployment.require_well()
    for protocols in STAGES[1:]:
        deployment.roll_to(protocols)
        deployment.require_well()
    group = deployment.world.find_group("g")
    assert group is not None
    assert group.protocol_name == COOPERATIVE


@pytest.mark.parametrize("seed", range(4))
def test_the_way_back_is_as_quiet(seed: int) -> None:
    deployment = Deployment(100 + seed)
    for number in range(4):
        deployment.start((COOPERATIVE,), f"i{number}" if number % 2 else None, "java")
    deployment.pass_ms(2 * REBALANCE_MS)
    for protocols in ((COOPERATIVE, RANGE), (RANGE,)):
        deployment.roll_to(protocols)
        deployment.require_well()
