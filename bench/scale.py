"""Whether a request costs the same where there is much of everything, and how much memory each thing takes.

    python -m bench.scale [--measures heartbeat-connections ...] [--largest 10000] [--rounds 5]

Each measure has sizes, which take turns, each in a process of its own: a node with a data directory, without sockets
(`bench.instructions`). Printed: CPU us a request with each size, the least of the rounds, and how many
times that of the smallest size the largest takes. Then memory: by how many bytes the process grows for each thing
that is added when there are many already.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import psutil

from bench.instructions import (
    Broker,
    Member,
    commit_requests,
    frame_of,
    group_of,
    produce_request,
    records_alike,
)
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

REQUESTS: Final = 2_000
WARM: Final = 200


def _heartbeat(member: Member) -> bytes:
    request = HeartbeatRequest(group_id=member.group_id, generation_id=member.generation_id, member_id=member.member_id)
    return frame_of(request, 4)


def _groups(broker: Broker, count: int) -> list[Member]:
    return [group_of(broker, f"group-{number}", 1)[0] for number in range(count)]


def _partitions(broker: Broker, count: int) -> list[tuple[str, int]]:
    """So many, of topics of 1,000."""
    for number in range(0, count, 1_000):
        broker.create_topic(f"wide-{number}", min(count - number, 1_000))
    return [(f"wide-{index // 1_000 * 1_000}", index % 1_000) for index in range(count)]


# What is measured: from a broker and a size to requests, which are sent as they are asked for


def heartbeat_connections(broker: Broker, count: int) -> Iterator[object]:
    """Each of so many connections is that of a group of one member."""
    asked = [(broker.peer(), _heartbeat(member)) for member in _groups(broker, count)]
    return (peer.send(frame) for peer, frame in cycle(asked))


def heartbeat_members(broker: Broker, count: int) -> Iterator[object]:
    """The members of one group."""
    asked = [(broker.peer(), _heartbeat(member)) for member in group_of(broker, "one", count)]
    return (peer.send(frame) for peer, frame in cycle(asked))


def commit_groups(broker: Broker, count: int) -> Iterator[object]:
    """A commit of one partition by each of so many groups in turn, each on a connection of its own."""
    asked = [(broker.peer(), frame_of(commit_requests(member, 1)[0], 8)) for member in _groups(broker, count)]
    return (peer.send(frame) for peer, frame in cycle(asked))


def produce_partitions(broker: Broker, count: int) -> Iterator[object]:
    """A record to each of so many partitions in turn."""
    places = _partitions(broker, count)
    peer = broker.peer()
    batch = records_alike(1)
    frames = [frame_of(produce_request(batch, topic, index), 9) for topic, index in places]
    return (peer.send(frame) for frame in cycle(frames))


def metadata_partitions(broker: Broker, count: int) -> Iterator[object]:
    """Metadata of a topic of one partition, where other topics have so many."""
    _partitions(broker, count)
    broker.create_topic("small", 1)
    peer = broker.peer()
    frame = frame_of(MetadataRequest(topics=(MetadataRequestTopic(name="small"),)), 12)
    return (peer.send(frame) for frame in cycle([frame]))


def join_members(broker: Broker, count: int) -> Iterator[object]:
    """A member's share in the rebalance with which a group of so many forms."""
    number = 0
    while True:
        group_of(broker, f"group-{number}", count)
        number += 1
        yield from range(count)


class Measure(NamedTuple):
    """`requests(broker, size)`, and the sizes."""

    requests: Callable[[Broker, int], Iterator[object]]
    sizes: tuple[int, ...]


MEASURES: Final = {
    "heartbeat-connections": Measure(heartbeat_connections, (1, 64, 1_000, 5_000)),
    "heartbeat-members": Measure(heartbeat_members, (2, 100, 1_000)),
    "commit-groups": Measure(commit_groups, (1, 100, 10_000)),
    "join-members": Measure(join_members, (2, 10, 100, 1_000)),
    "produce-partitions": Measure(produce_partitions, (1, 100, 10_000)),
    "metadata-partitions": Measure(metadata_partitions, (1, 100, 10_000)),
}


def cpu_us(name: str, size: int, rounds: int, folder: str) -> float:
    """CPU us a request."""
    requests = MEASURES[name].requests(Broker(f"{folder}/data"), size)
    _send(requests, max(WARM, size))
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    count = max(REQUESTS, size)
    least_s = min(_send(requests, count) for _ in range(rounds))
    return least_s / count * 1e6


def _send(requests: Iterator[object], count: int) -> float:
    began_s = time.process_time()
    for _ in islice(requests, count):
        pass
    return time.process_time() - began_s


# Memory


def a_connection(broker: Broker) -> Callable[[int], object]:
    """It has sent a Heartbeat."""
    frame = _heartbeat(group_of(broker, "one", 1)[0])
    kept: list[Any] = []

    def add(_: int) -> None:
        kept.append(broker.peer())
        kept[-1].send(frame)

    return add


def a_group(broker: Broker) -> Callable[[int], object]:
    """Of one member, over one of 64 connections."""
    return lambda number: group_of(broker, f"group-{number}", 1)


def an_offset(broker: Broker) -> Callable[[int], object]:
    """Committed for a partition of its own, one at a time."""
    broker.create_topic("wide", 100)
    peer = broker.peer()

    def add(number: int) -> None:
        member = Member(f"group-{number // 100}", "", -1)
        peer.ask(commit_requests(member, 1, first=number % 100, topic="wide")[0], 8)

    return add


def a_partition(broker: Broker) -> Callable[[int], object]:
    """With its log, of topics of 100, without records."""
    return lambda number: None if number % 100 else broker.create_topic(f"topic-{number}", 100)


MEMORY: Final = {
    "connection": (a_connection, 2_000),
    "group": (a_group, 2_000),
    "offset": (an_offset, 10_000),
    "partition": (a_partition, 5_000),
}


def bytes_each(name: str, folder: str) -> float:
    """By how much the process grows."""
    prepare, count = MEMORY[name]
    add = prepare(Broker(f"{folder}/data"))
    for number in range(count):
        add(number)
    gc.collect()
    process = psutil.Process()
    before_bytes = process.memory_info().rss
    for number in range(count, 3 * count):
        add(number)
    gc.collect()
    return (process.memory_info().rss - before_bytes) / (2 * count)


def _in_process(measure: Callable[..., float], *arguments: object) -> float:
    """What it measures in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (*arguments, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measures", nargs="*", choices=[*MEASURES, *MEMORY], default=[*MEASURES, *MEMORY])
    parser.add_argument("--largest", type=int, default=10_000, help="the largest size")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["PYTHONHASHSEED"] = "0"
    print("CPU us a request by size, and memory")
    for name in options.measures:
        if name in MEASURES:
            sizes = [size for size in MEASURES[name].sizes if size <= options.largest]
            costs = {size: _in_process(cpu_us, name, size, options.rounds) for size in sizes}
            shown = "  ".join(f"{size:,}: {cost:.1f}" for size, cost in costs.items())
            print(f"{name:24} {shown}  (x {costs[sizes[-1]] / costs[sizes[0]]:.2f})", flush=True)
        else:
            print(f"{name:24} {_in_process(bytes_each, name):,.0f} bytes each", flush=True)


if __name__ == "__main__":
    main()
