"""Random groups of a real Kafka: members that come, go and change what they want, and the target after each change.

The coordinator computes a target with the first heartbeat after a change, without delay and not aside
(`PROPERTIES`), so that each target follows from the one before and from one change.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kshim.coordinator.groups.consumer.assignors.subscribers import Subscriber, Target
from kshim.tools.client import Client
from kshim_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

PROPERTIES: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "offsets.topic.num.partitions": "1",
}
PARTITION_COUNTS: Final = {f"topic-{count}": count for count in (1, 2, 3, 3, 4, 6, 9)} | {"other-3": 3, "other-6": 6}
LEAVE: Final = -1
_TIMEOUT_S = 60


class Change(NamedTuple):
    """A member joins, or wants other topics; None: it leaves."""

    member_id: str
    topics: frozenset[str] | None
    instance_id: str | None = None


def random_changes(seed: int) -> list[Change]:
    """What happens to one group. The first is a join, and there is always a member."""
    source = random.Random(seed)
    common = source.random() < 0.5
    wanted = _some_topics(source)
    present: dict[str, str | None] = {}
    changes: list[Change] = []
    for number in range(source.randint(2, 9)):
        if len(present) > 1 and source.random() < 0.25:
            member_id = source.choice(sorted(present))
            changes.append(Change(member_id, None, present.pop(member_id)))
            continue
        if common or not present or source.random() < 0.7:
            member_id = f"{source.getrandbits(32):08x}"
            present[member_id] = f"i-{source.getrandbits(8)}-{number}" if source.random() < 0.3 else None
        else:
            member_id = source.choice(sorted(present))
        changes.append(Change(member_id, wanted if common else _some_topics(source), present[member_id]))
    return changes


def _some_topics(source: random.Random) -> frozenset[str]:
    return frozenset(source.sample(sorted(PARTITION_COUNTS), source.randint(1, 4)))


class KafkaGroup:
    """One group of a live broker. Its members are requests of ours; they report nothing that they own."""

    def __init__(self, client: Client, group_id: str, assignor: str, topic_ids: Mapping[str, bytes]) -> None:
        self._client = client
        self._group_id = group_id
        self._assignor = assignor
        self._topic_ids = topic_ids
        self._joined: set[str] = set()

    def make(self, change: Change) -> None:
        """Have the change happen."""
        member_id, topics, instance_id = change
        names = None if topics is None else tuple(sorted(topics))
        if topics is None:
            self._joined.discard(member_id)
            self._heartbeat(member_id, LEAVE, instance_id=instance_id)
        elif member_id in self._joined:
            (epoch,) = (each.member_epoch for each in self._described().members if each.member_id == member_id)
            self._heartbeat(member_id, epoch, instance_id=instance_id, subscribed_topic_names=names)
        else:
            self._joined.add(member_id)
            self._heartbeat(
                member_id,
                0,
                instance_id=instance_id,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=names,
                server_assignor=self._assignor,
                topic_partitions=(),
            )

    def members(self) -> dict[str, Subscriber]:
        """The members, each with its target, when that is the one of the group's epoch."""
        deadline = time.monotonic() + _TIMEOUT_S
        while (group := self._described()).assignment_epoch < group.group_epoch:
            assert time.monotonic() < deadline, group
            member = group.members[0]
            self._heartbeat(member.member_id, member.member_epoch, instance_id=member.instance_id)
        assert group.assignor_name == self._assignor
        return {member.member_id: self._subscriber(member) for member in group.members}

    def _described(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=(self._group_id,), include_authorized_operations=False)
        group: DescribedGroup = self._client.ask(request, 1).groups[0]
        assert group.error_code == 0, group
        return group

    def _subscriber(self, member: Any) -> Subscriber:
        target = member.target_assignment.topic_partitions
        return Subscriber(
            frozenset(self._topic_ids[name] for name in member.subscribed_topic_names),
            frozenset((topic.topic_id, index) for topic in target for index in topic.partitions),
            member.instance_id,
        )

    def _heartbeat(self, member_id: str, epoch: int, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        response = self._client.ask(request, 1)
        assert response.error_code == 0, response


def make_topics(client: Client) -> dict[str, bytes]:
    """The topics of all groups: their ids by name. The coordinator knows them when this returns."""
    topics = tuple(
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name, count in PARTITION_COUNTS.items()
    )
    made = client.ask(CreateTopicsRequest(topics=topics), 7).topics
    topic_ids = {topic.name: topic.topic_id for topic in made}
    deadline = time.monotonic() + _TIMEOUT_S
    for attempt in range(1_000_000):
        group = KafkaGroup(client, f"readiness-{attempt}", "uniform", topic_ids)
        group.make(Change("a", frozenset(PARTITION_COUNTS)))
        if len(group.members()["a"].assigned) == sum(PARTITION_COUNTS.values()):
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return topic_ids


def before(members: Mapping[str, Subscriber], known: Target) -> dict[str, Subscriber]:
    """The members as the assignor saw them: with the target before this one."""
    return {
        member_id: member._replace(assigned=known.get(member_id, frozenset())) for member_id, member in members.items()
    }


def sizes(target: Target) -> list[int]:
    """How many partitions members have, the largest first."""
    return sorted(map(len, target.values()), reverse=True)


def kept(members: Mapping[str, Subscriber], target: Target) -> int:
    """How many partitions stay where they were."""
    return sum(len(member.assigned & target[member_id]) for member_id, member in members.items())
