"""What happens to groups by chance: processes come, go, stall and are upgraded; brokers crash; topics are deleted."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.assignors import COOPERATIVE, RANGE
from tests.simulation.client import Client, Phase
from tests.simulation.network import Network
from tests.simulation.script import Actor, Versions
from tests.simulation.world import ADMIN, World

VERSIONS = {
    "ancient": Versions(0, 0, 0, 0, 2, 1),
    "v1": Versions(1, 1, 1, 1, 3, 2),
    "v2": Versions(2, 2, 2, 2, 4, 3),
    "kip-394": Versions(4, 2, 2, 2, 6, 5),
    "librdkafka": Versions(5, 3, 3, 1, 9, 9),
    "kafka-python": Versions(7, 5, 4, 5, 8, 8),
    "java": Versions(9, 5, 4, 5, 9, 9),
    "newest": Versions(9, 5, 4, 5, 10, 10),
}
"""What known clients speak: Join, Sync, Heartbeat, Leave, OffsetCommit, OffsetFetch."""

_STATIC = ("librdkafka", "kafka-python", "java", "newest")

STAGES = ((RANGE,), (COOPERATIVE, RANGE), (COOPERATIVE,))
"""The two rolling bounces of an upgrade to cooperative rebalancing; neighbours can be in one group."""

_APPEND_ERRORS = ("NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR", "REQUEST_TIMED_OUT", "MESSAGE_TOO_LARGE")


class Plan:
    """What a seed has in store: numbers drawn once a run."""

    def __init__(self, rng: Random, topics: dict[str, int]) -> None:
        self.groups = [f"g{number}" for number in range(1, rng.choice((2, 2, 3, 4)))]
        self.topics = topics
        self.most_clients = rng.choice((3, 5, 8, 12))
        self.every_ms = rng.choice((300, 1_000, 3_000, 6_000))
        self.longest_session_ms = rng.choice((2_000, 6_000, 12_000, 30_000))
        self.longest_rebalance_ms = rng.choice((2_000, 6_000, 12_000))
        self.trouble = rng.choice((0.0, 0.3, 1.0, 1.0, 2.0))  # how much more often the broker is hit than clients
        self.weights = {
            "start": 8.0,
            "start-static": rng.choice((1.0, 3.0, 12.0)),
            "duplicate": 1.0,
            "close": 2.0,
            "kill": 2.0,
            "restart": 3.0,
            "stall": 3.0,
            "cut": 2.0,
            "upgrade": 4.0,
            "resubscribe": 2.0,
            "administrate": 3.0,
            "commit-alone": 2.0,
            "crash": 1.0 * self.trouble,
            "crash-at-append": 1.5 * self.trouble,
            "fail-append": 2.0 * self.trouble,
            "unload": 1.0 * self.trouble,
            "pause": 0.7 * self.trouble,
            "delete-topic": 0.7 * self.trouble,
            "compare": 1.0,
        }
        for name in rng.sample(sorted(self.weights), 4):
            self.weights[name] *= rng.choice((0.0, 4.0))
        self.weights["start"] += 1.0


class Churn:
    """Draws one happening after the other and has the network carry it out."""

    def __init__(self, network: Network, plan: Plan) -> None:
        self.network = network
        self.world: World = network.world
        self.rng = network.rng
        self.plan = plan
        self.stages = {group_id: self.rng.choice((0, 0, 1, 2)) for group_id in plan.groups}
        self._kinds = list(plan.weights)
        self._weights = list(plan.weights.values())
        self._made = 0
        self._alone: dict[str, Actor] = {}
        network.at(0, self._next)

    def _next(self, at_ms: int) -> None:
        kind = self.rng.choices(self._kinds, self._weights)[0]
        getattr(self, "_" + kind.replace("-", "_"))(at_ms)
        if not self._running():
            self._start(at_ms)
        self.network.at(at_ms + self.rng.randrange(1, 2 * self.plan.every_ms), self._next)

    def _running(self, group_id: str | None = None) -> list[Client]:
        return [
            client
            for client in self.network.clients.values()
            if client.is_running and group_id in (None, client.actor.group_id)
        ]

    def _any(self, clients: list[Client]) -> Client | None:
        return self.rng.choice(clients) if clients else None

    # Clients

    def _start(self, at_ms: int) -> None:
        if len(self._running()) < self.plan.most_clients:
            self._launch(at_ms, self.rng.choice(self.plan.groups), None, self.rng.choice(sorted(VERSIONS)))

    def _start_static(self, at_ms: int) -> None:
        """A static process, perhaps a second one with an instance id that is in use."""
        if len(self._running()) < self.plan.most_clients:
            instance_id = f"i{self.rng.randrange(1, 4)}"
            self._launch(at_ms, self.rng.choice(self.plan.groups), instance_id, self.rng.choice(_STATIC))

    def _duplicate(self, at_ms: int) -> None:
        original = self._any([client for client in self._running() if client.actor.instance_id is not None])
        if original is not None:
            self._launch(at_ms, original.actor.group_id, original.actor.instance_id, self.rng.choice(_STATIC))

    def _launch(
        self, at_ms: int, group_id: str, instance_id: str | None, kind: str, stage: int | None = None
    ) -> Client:
        rng, plan = self.rng, self.plan
        self._made += 1
        actor = Actor(
            name=_name(self._made),
            group_id=group_id,
            instance_id=instance_id,
            versions=VERSIONS[kind],
            session_timeout_ms=rng.randrange(500, plan.longest_session_ms),
            rebalance_timeout_ms=rng.randrange(500, plan.longest_rebalance_ms),
            protocols=STAGES[self.stages[group_id] if stage is None else stage],
            subscription_version=rng.choice((0, 1, 2, 3)),
            client_id=kind,
        )
        self.world.actors[actor.name] = actor
        client = Client(actor, self._topics(), at_ms)
        if rng.random() < 0.1:  # slow: hardly ever on time
            client.heartbeat_ms = int(actor.session_timeout_ms * rng.choice((0.9, 1.1)))
        self.network.add(client, at_ms)
        return client

    def _topics(self) -> tuple[str, ...]:
        names = sorted(self.plan.topics)
        return tuple(self.rng.sample(names, self.rng.randrange(1, len(names) + 1)))

    def _close(self, at_ms: int) -> None:
        client = self._any(self._running())
        if client is not None:
            self.network.cut(client, at_ms)
            client.leave()
            client.not_before_ms = at_ms
            self.network.kick(client, at_ms)

    def _kill(self, at_ms: int) -> None:
        """A process dies without a word."""
        client = self._any(self._running())
        if client is not None:
            self._end(client, at_ms)

    def _end(self, client: Client, at_ms: int) -> None:
        self.world.faults["process killed"] += 1
        self.network.cut(client, at_ms)
        client.phase = Phase.STOPPED

    def _restart(self, at_ms: int) -> None:
        """Down and up again at once: flapping, and for static members the way they are meant to come back."""
        client = self._any(self._running())
        if client is not None:
            self._replace(client, at_ms, None)

    def _replace(self, client: Client, at_ms: int, stage: int | None) -> None:
        actor = client.actor
        if actor.instance_id is None and self.rng.random() < 0.7:
            self.network.cut(client, at_ms)
            client.leave()
            client.not_before_ms = at_ms
            self.network.kick(client, at_ms)
        else:
            self._end(client, at_ms)
        self._launch(at_ms + self.rng.randrange(1, 500), actor.group_id, actor.instance_id, actor.client_id, stage)

    def _upgrade(self, at_ms: int) -> None:
        """One member more is restarted with the next list of protocols; when all have it, the next bounce may begin."""
        group_id = self.rng.choice(self.plan.groups)
        clients = self._running(group_id)
        behind = [client for client in clients if client.actor.protocols != STAGES[self.stages[group_id]]]
        if behind:
            self._replace(self.rng.choice(behind), at_ms, self.stages[group_id])
        elif clients and self.stages[group_id] + 1 < len(STAGES):
            self.stages[group_id] += 1

    def _stall(self, at_ms: int) -> None:
        """A long collection of garbage: nothing is sent for up to two sessions."""
        client = self._any(self._running())
        if client is not None:
            self.world.faults["client stalled"] += 1
            client.not_before_ms = at_ms + self.rng.randrange(1, 2 * client.actor.session_timeout_ms)

    def _cut(self, at_ms: int) -> None:
        client = self._any(self._running())
        if client is not None:
            self.world.faults["connection closed"] += 1
            self.network.cut(client, at_ms)

    def _resubscribe(self, at_ms: int) -> None:
        client = self._any([client for client in self._running() if client.phase is Phase.MEMBER])
        if client is not None:
            client.topics = self._topics()
            client.rejoin(commits=self.rng.random() < 0.5)
            self.network.kick(client, at_ms)

    # Who is no member

    def _commit_alone(self, at_ms: int) -> None:
        """A commit outside any membership, by hand or by a consumer that assigns partitions itself."""
        rng = self.rng
        group_id = rng.choice([*self.plan.groups, "simple"])
        kind = rng.choice(sorted(VERSIONS))
        actor = Actor(f"alone-{group_id}-{kind}", group_id, None, VERSIONS[kind], 1_000, 1_000, (RANGE,), 0, kind)
        self.world.actors.setdefault(actor.name, actor)
        partitions = {
            (topic, rng.randrange(self.plan.topics[topic])): rng.randrange(1_000)
            for topic in rng.sample(sorted(self.plan.topics), rng.randrange(1, 3))
        }
        detail: dict[str, Any] = {"offsets": partitions, "metadata": rng.choice(("", "by hand"))}
        version = VERSIONS[kind].commit
        if version <= 4 and rng.random() < 0.5:
            detail["retention_ms"] = rng.randrange(0, self.world.setting.retention_ms)
        self.network.give(at_ms, "commit", detail, actor=actor.name, version=version)
        asked = {"partitions": tuple(partitions)}
        self.network.give(at_ms, "fetch", asked, actor=actor.name, version=VERSIONS[kind].fetch)

    def _administrate(self, at_ms: int) -> None:
        rng = self.rng
        groups = [*self.plan.groups, "simple"]
        group_id = rng.choice(groups)
        match rng.choice(("describe", "list", "delete", "offset-delete", "remove")):
            case "describe":
                version = rng.choice((0, 3, 5, 6))
                self.network.give(at_ms, "describe", {"groups": tuple(groups)}, actor=ADMIN, version=version)
            case "list":
                self.network.give(
                    at_ms,
                    "list",
                    {"states": rng.choice(((), ("stable",), ("empty", "preparingrebalance")))},
                    actor=ADMIN,
                    version=rng.choice((4, 5)),
                )
            case "delete":
                some = tuple(rng.sample(groups, rng.randrange(1, len(groups) + 1)))
                self.network.give(at_ms, "delete", {"groups": some}, actor=ADMIN, version=rng.choice((0, 2, 3)))
            case "offset-delete":
                topic = rng.choice(sorted(self.plan.topics))
                partitions = tuple((topic, index) for index in range(rng.randrange(1, self.plan.topics[topic] + 1)))
                self.network.give(at_ms, "offset-delete", {"group": group_id, "partitions": partitions}, actor=ADMIN)
            case "remove":
                detail = {"group": group_id, "instances": tuple(rng.sample(("i1", "i2", "i3"), rng.randrange(1, 4)))}
                self.network.give(at_ms, "remove", detail, actor=ADMIN, version=rng.choice((3, 4, 5)))

    # The broker

    def _compare(self, at_ms: int) -> None:
        self.network.give(at_ms, "compare")

    def _crash(self, at_ms: int) -> None:
        detail = {"group_max_size": self.rng.choice((1, 2, 3, 2_147_483_647))} if self.rng.random() < 0.2 else {}
        self.network.give(at_ms, "crash", detail)

    def _crash_at_append(self, at_ms: int) -> None:
        self.network.give(at_ms, "crash-next-append", {"when": self.rng.choice(("before", "after"))})

    def _fail_append(self, at_ms: int) -> None:
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.network.give(at_ms, "fail-next-append", {"error": self.rng.choice(_APPEND_ERRORS)})

    def _unload(self, at_ms: int) -> None:
        """A shard goes, and comes back in two steps with requests in between."""
        partition = self.rng.randrange(self.world.config.offsets_topic_num_partitions)
        back_ms = at_ms + self.rng.randrange(1, 2_000)
        self.network.give(at_ms, "unload", {"partition": partition})
        self.network.at(back_ms, self.network.give, "begin-load", {"partition": partition})
        self.network.at(back_ms + self.rng.randrange(1, 1_000), self.network.give, "load", {"partition": partition})

    def _pause(self, at_ms: int) -> None:
        self.world.faults["broker paused"] += 1
        self.network.give(at_ms, "pause", {"ms": self.rng.randrange(1, 5_000)})

    def _delete_topic(self, at_ms: int) -> None:
        topic = self.rng.choice(sorted(self.plan.topics))
        self.world.faults["topic deleted"] += 1
        self.network.give(at_ms, "delete-topic", {"topic": topic})
        again = {"topic": topic, "partitions": self.plan.topics[topic]}
        self.network.at(at_ms + self.rng.randrange(1, 5_000), self.network.give, "create-topic", again)


def _name(number: int) -> str:
    """a, b, ..., z, a1, b1, ..."""
    round_, letter = divmod(number - 1, 26)
    return chr(ord("a") + letter) + (str(round_) if round_ else "")
