"""Streams groups of random members, on kshim and on a real Kafka: every answer and every description is the same.

`KSHIM_STREAMS_CROWDS` sets how many there are (10), `KSHIM_STREAMS_SEED` with which the first is made.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from integration.streams.play import Asked, Member, Play, part, task_offset, tasks, topic_info
from integration.streams.scenes import commit, fetch
from integration.support.broker import Broker
from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from kshim_protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from kshim_protocol.messages.streams_group_heartbeat import TaskIds, Topology
from tests.broker.test_streams_groups_like_kafka import seen

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(3_600)]

CROWDS = int(os.environ.get("KSHIM_STREAMS_CROWDS", "10"))
SEED = int(os.environ.get("KSHIM_STREAMS_SEED", "1"))
STEPS = 150
SETTLE_MS = 1_000
"""What a busy Kafka may need to hear of the last topics."""
CONFIG = {
    "group.streams.assignor.offload.enable": "false",
    "offsets.topic.num.partitions": "1",
    "group.streams.min.task.offset.interval.ms": "15000",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Kafka and kshim."""
    kafka = available(lambda: RealKafka(tmp_path_factory.mktemp("kafka"), CONFIG))
    kshim = KshimProcess(tmp_path_factory.mktemp("kshim"), durable=True)
    kafka.start()
    kshim.start()
    yield kafka, kshim
    kshim.stop()
    kafka.stop()


def crowd(play: Play, seed: int) -> None:
    """Members of a few processes come, report, go, and come back with what they had restored."""
    chance = random.Random(seed)
    counts = {f"t{number}": chance.randint(1, 6) for number in range(3)}
    for word, count in counts.items():
        play.topic(word, count)
    parts = []
    for number in chance.sample(range(30), chance.randint(1, 5)):
        sources = chance.sample(sorted(counts), chance.randint(1, 2))
        stores = [f"store-{number}-{index}" for index in range(chance.choice((0, 1, 2)))]
        for store in stores:
            play.topic(store, max(counts[source] for source in sources))
        changelogs = tuple(topic_info(play.name(store)) for store in stores)
        parts.append(part(str(number), *map(play.name, sources), changelogs=changelogs))
    play.wait(SETTLE_MS)
    play.at_once(num_standby_replicas=chance.randint(0, 2))
    topology = Topology(epoch=chance.randint(0, 2), subtopologies=tuple(parts))
    processes = [f"{chance.getrandbits(64):x}" for _ in range(chance.randint(1, 6))]
    present: list[Member] = []
    away: list[Member] = []
    most = chance.choice((3, 8, 20))
    for number in range(STEPS):
        what = chance.random()
        if not present or (what < 0.2 and len(present) < most):
            if away and chance.random() < 0.5:
                member = away.pop(chance.randrange(len(away)))
            else:
                instance_id = f"i{number}" if chance.random() < 0.3 else None
                member = play.member(
                    f"{chance.getrandbits(96):x}",
                    topology=topology,
                    process_id=chance.choice(processes),
                    instance_id=instance_id,
                    endpoint=(f"host-{number}", 8_000 + number) if chance.random() < 0.3 else None,
                )
            member.join()
            present.append(member)
        elif what < 0.27:
            member = present.pop(chance.randrange(len(present)))
            if member.instance_id is not None and chance.random() < 0.6:
                member.leave_for_now()
                away.append(member)
            else:
                member.leave()
        elif what < 0.35:
            member = chance.choice(present)
            restored = {(each.subtopology_id, chance.randrange(6)) for each in chance.choices(parts, k=3)}
            offsets = tuple(task_offset(*task, chance.randint(0, 50)) for task in sorted(restored))
            member.beat(task_offsets=offsets, task_end_offsets=offsets)
        elif what < 0.45:
            mistake(play, chance.choice(present), parts[0].subtopology_id, chance)
        else:
            chance.choice(present).report()
        if number % 5 == 0:
            play.describe()


def mistake(play: Play, member: Member, subtopology_id: str, chance: random.Random) -> None:
    """Something that a member says wrongly, or late, or that is none."""
    match chance.randrange(9):
        case 0:
            member.beat(member.epoch + 1)
        case 1:
            member.report(member_epoch=max(member.epoch - 1, 1))
        case 2:
            member.report(member_epoch=max(member.epoch - 1, 1), active_tasks=())
        case 3:
            member.report(active_tasks=tasks(s999=(0,)))
        case 4:
            member.report(active_tasks=(TaskIds(subtopology_id=subtopology_id, partitions=(0, 99)),))
        case 5:
            member.beat(instance_id="nobody")
        case 6:
            play.member("stranger").beat(5)
        case 7:
            commit(play, member.member_id, member.epoch + chance.choice((-1, 0, 0, 1)), ("t0", 0))
        case _:
            fetch(play, member.member_id, member.epoch + chance.choice((-1, 0, 0, 1)))


@pytest.mark.parametrize("seed", range(SEED, SEED + CROWDS))
def test_a_crowd_is_told_the_same(both: tuple[Broker, Broker], seed: int) -> None:
    plays = [Play(broker.bootstrap, f"crowd-{seed}") for broker in both]
    for play in plays:
        crowd(play, seed)
        play.close()
    kafka, kshim = plays
    assert len(kafka.asked) > STEPS
    for number, (theirs, ours) in enumerate(zip(kafka.asked, kshim.asked, strict=True)):
        assert told(ours, kshim) == told(theirs, kafka), (number, theirs.request)


def told(asked: Asked, play: Play) -> object:
    """An answer without the order of lists: between subtopologies of one slot of a table it follows from its history.

    And without the topology of a description: Kafka's shows the numbers of partitions that were found only when some
    record was written after the heartbeat that found them.
    """
    response = asked.response
    if isinstance(response, StreamsGroupDescribeResponse):
        response = replace(response, groups=tuple(replace(group, topology=None) for group in response.groups))
    return _sorted(seen(response, play.group_id))


def _sorted(value: Any) -> object:
    if is_dataclass(value):
        return type(value).__name__, {field.name: _sorted(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return sorted(map(_sorted, value), key=repr)
    return value
