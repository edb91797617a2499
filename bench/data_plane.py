"""What Produce, Fetch and ListOffsets cost without sockets: microseconds of CPU a request, from frame to answer.

    python -m bench.data_plane [--rounds 7] [--files DIRECTORY]

One node in this process; a connection that throws answers away. Cases take turns, round after round, after a warm-up.
Printed: median [lowest-highest] of the rounds. `handler` is the handler alone, without codecs; `frame`
is the whole way of a request's bytes to the answer's bytes. With `--files` the logs lie in DIRECTORY instead of memory
(it must not exist yet; it is removed afterwards).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kshim.broker.client_activity import ConnectedClient
from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.connection import ANONYMOUS
from kshim.broker.node import Node
from kshim.broker.request import PendingReply, Route
from kshim.broker.router import Router
from kshim.config.broker_config import BrokerConfig
from kshim.config.listeners import SecurityProtocol
from kshim.coordinator.step import Now, RequestContext
from kshim.storage.directory import DataDirectory
from kshim.storage.storage import Storage
from kshim.storage.stores import DirectoryStorage, MemoryStorage
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import RequestHeader, build_request_frame
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from kshim_protocol.schema import Request

WALL_MS = 1_700_000_000_000
IDLE_PARTITIONS = 100
BATCH_BYTES = 16 * 1024


class Sink:
    """A connection whose answers go nowhere."""

    client_host = "/127.0.0.1"
    client_port = 40_000
    listener_name = "PLAINTEXT"
    security_protocol: SecurityProtocol = "PLAINTEXT"
    principal = ANONYMOUS
    is_authenticated = True
    is_closed = False

    def __init__(self) -> None:
        self.client = ConnectedClient()
        self.reply_count = 0

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        self.reply_count += 1

    def hang_up(self, reason: str) -> None:
        raise AssertionError(reason)


class Bench:
    """A node with its clock standing still, and what is needed to send it requests."""

    def __init__(self, storage: Storage) -> None:
        self.now = Now(0, WALL_MS)
        random_ids = RandomIds(lambda: "0", iter(n.to_bytes(16, "big") for n in range(1, 1000)).__next__)
        self.cluster = Cluster(BrokerConfig({}), storage, random_ids, cluster_id="bench", on_defect=fail)
        self.node = Node(self.cluster, 1, "127.0.0.1", 9092)
        self.router = Router(self.node)
        self.cluster.start(lambda: self.now)
        self.sink = Sink()
        self._producer_sequence = 0

    def frame_of(self, request: Request[Any], version: int) -> bytes:
        """The request's bytes, without the size."""
        key = type(request).info.api_key
        assert key is not None
        flexible = API_TABLE[key].is_flexible(version)
        return build_request_frame(
            key, version, 1, "bench", codec(type(request), version).build(request), flexible=flexible
        )[4:]

    def send(self, frame: bytes) -> None:
        self.router.route(frame, self.sink, self.now, 0)

    def handled(self, request: Request[Any], version: int) -> Callable[[], None]:
        """Calls the handler alone, its answer not built into bytes."""
        key = type(request).info.api_key
        assert key is not None
        route: Route | None = self.router.resolve(key, version)
        assert route is not None
        handler, context = route.handler, RequestContext(version, "bench", "/127.0.0.1", self.now, 0)
        ticket = PendingReply(self.sink, RequestHeader(key, version, 1, "bench", 0), route, request)

        def act() -> None:
            handler(self.node, request, context, ticket)

        return act

    def sent(self, request: Request[Any], version: int) -> Callable[[], None]:
        """Sends the request's bytes."""
        frame = self.frame_of(request, version)
        return lambda: self.send(frame)


class Case(NamedTuple):
    name: str
    repeats: int
    act: Callable[[], None]


def fail(error: BaseException, request: object) -> None:
    raise error


def a_batch(size_bytes: int, **options: Any) -> bytes:
    """A batch of ten records and about `size_bytes`."""
    value = b"x" * (size_bytes // 10 - 10)
    return build_batch([Record(b"k", value, timestamp_ms=WALL_MS) for _ in range(10)], **options)


def produce_request(topic: str, batch: bytes) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=(TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)),),
    )


def fetch_request(
    topic: str, partitions: int, offset: int, *, max_wait_ms: int, max_bytes: int = 1 << 20
) -> FetchRequest:
    wanted = tuple(
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index in range(partitions)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=(FetchTopic(topic=topic, partitions=wanted),)
    )


def produce_cases(bench: Bench) -> list[Case]:
    small, large = a_batch(200), a_batch(BATCH_BYTES)
    header_sequence = 0

    def numbered() -> None:
        nonlocal header_sequence
        batch = build_batch([Record(None, b"x" * 100)], producer_id=1, producer_epoch=0, base_sequence=header_sequence)
        header_sequence += 1
        bench.send(bench.frame_of(produce_request("numbered", batch), 12))

    def numbering_alone() -> None:
        batch = build_batch([Record(None, b"x" * 100)], producer_id=1, producer_epoch=0, base_sequence=header_sequence)
        bench.frame_of(produce_request("numbered", batch), 12)

    return [
        Case("Produce v12 200 B, handler", 2000, bench.handled(produce_request("data", small), 12)),
        Case("Produce v12 200 B, frame", 2000, bench.sent(produce_request("data", small), 12)),
        Case("Produce v12 16 KiB, handler", 1000, bench.handled(produce_request("data", large), 12)),
        Case("Produce v12 16 KiB, frame", 1000, bench.sent(produce_request("data", large), 12)),
        Case("Produce v12 16 KiB, LogAppendTime, frame", 1000, bench.sent(produce_request("stamped", large), 12)),
        Case("Produce v12 100 B idempotent, building included", 1000, numbered),
        Case("  the building alone", 1000, numbering_alone),
    ]


def fetch_cases(bench: Bench) -> list[Case]:
    for _ in range(64):
        bench.send(bench.frame_of(produce_request("readable", a_batch(BATCH_BYTES)), 12))
    park = bench.frame_of(fetch_request("idle", 1, 0, max_wait_ms=500), 12)
    park_many = bench.frame_of(fetch_request("idle", IDLE_PARTITIONS, 0, max_wait_ms=500), 12)
    batch = a_batch(200)
    woken = bench.cluster.topics.partition("woken", 0)
    assert woken is not None

    def wake() -> None:
        log = woken.log
        bench.send(bench.frame_of(fetch_request("woken", 1, log.end_offset, max_wait_ms=500), 12))
        woken.append(batch)

    def building_alone() -> None:
        bench.frame_of(fetch_request("woken", 1, woken.log.end_offset, max_wait_ms=500), 12)

    def expire(frame: bytes) -> Callable[[], None]:
        def act() -> None:
            bench.send(frame)
            bench.router.advance_real(500)

        return act

    return [
        Case(
            "Fetch v12 16 KiB of 1 MiB, frame",
            1000,
            bench.sent(fetch_request("readable", 1, 0, max_wait_ms=0, max_bytes=BATCH_BYTES), 12),
        ),
        Case("Fetch v12 1 MiB, frame", 200, bench.sent(fetch_request("readable", 1, 0, max_wait_ms=0), 12)),
        Case("Fetch v12 parked and woken by 200 B, building included", 1000, wake),
        Case("  the building alone", 1000, building_alone),
        Case("Fetch v12 1 idle partition, parked to its end", 1000, expire(park)),
        Case(f"Fetch v12 {IDLE_PARTITIONS} idle partitions, parked to its end", 100, expire(park_many)),
    ]


def list_offsets_cases(bench: Bench) -> list[Case]:
    def request(timestamp: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(
                ListOffsetsTopic(
                    name="readable", partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),)
                ),
            ),
        )

    return [
        Case("ListOffsets v9 latest, frame", 2000, bench.sent(request(-1), 9)),
        Case("ListOffsets v9 by time, frame", 1000, bench.sent(request(WALL_MS), 9)),
    ]


def measure(cases: list[Case], rounds: int) -> None:
    """Cases take turns; prints the median of the rounds."""
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for index, case in enumerate(cases):
            began = time.process_time()
            for _ in range(case.repeats):
                case.act()
            each_us = (time.process_time() - began) / case.repeats * 1e6
            if number:
                found.setdefault(f"{index:02} {case.name}", []).append(each_us)
    for name, values in found.items():
        print(f"{name[3:]:58} {statistics.median(values):8.1f} us  [{min(values):.1f}-{max(values):.1f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=Path)
    options = parser.parse_args()
    storage: Storage = MemoryStorage()
    if options.files is not None:
        options.files.mkdir(parents=True)
        storage = DirectoryStorage(DataDirectory.open(str(options.files), cluster_id="bench", node_id=1))
    try:
        bench = Bench(storage)
        for name, count in (("data", 1), ("numbered", 1), ("readable", 1), ("woken", 1), ("idle", IDLE_PARTITIONS)):
            bench.cluster.create_topic(name, count)
        bench.cluster.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
        measure([*produce_cases(bench), *fetch_cases(bench), *list_offsets_cases(bench)], options.rounds)
        bench.cluster.close()
    finally:
        if options.files is not None:
            shutil.rmtree(options.files)


if __name__ == "__main__":
    main()
