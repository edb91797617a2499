"""Commits under the three `--fsync` policies: how many a second, how long one takes, what it costs the broker.

    python -m bench.fsync [--rounds 5] [--requests 4000] [--data-dir DIR]

Every connection commits one offset for a group of its own (OffsetCommit v8) and waits for the answer; 1 and 64 of them.
Each policy has a broker of its own over a new directory; they take turns, round after round, after a warm-up. In memory
and a bare write with fdatasync on the same disk stand beside them. Printed: median [lowest-highest] commits a second,
median and 99th percentile of a commit's time, and CPU microseconds a commit of the broker's process with all its threads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

CONNECTIONS = (1, 64)
POLICIES = ("never", "interval", "always")
TOPIC = "fsync-bench"
VERSION = 8


def commit_of(group_id: str) -> OffsetCommitRequest:
    """A commit of somebody who is no member."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),)
    return OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)


def prepare(client: Client, group_ids: list[str]) -> list[bytes]:
    """Make the topic and the groups; returns a frame for each group."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=())
    client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
    while client.ask(FindCoordinatorRequest(key=group_ids[0]), 3).error_code != ErrorCode.NONE:
        time.sleep(0.1)
    for group_id in group_ids:
        while client.ask(commit_of(group_id), VERSION).topics[0].partitions[0].error_code:
            time.sleep(0.05)
    build = codec(OffsetCommitRequest, VERSION).build
    return [
        build_request_frame(8, VERSION, 7, "bench", build(commit_of(group_id)), flexible=True) for group_id in group_ids
    ]


def commit(address: tuple[str, int], frames: list[bytes], request_count: int) -> tuple[float, list[float]]:
    """Keep one commit in flight on a connection for each of `frames`; returns seconds in all, and those of each."""
    epoll = select.epoll()
    connections: dict[int, tuple[socket.socket, bytes]] = {}
    for frame in frames:
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[connection.fileno()] = (connection, frame)
        epoll.register(connection, select.EPOLLIN)
    asked_s: dict[int, float] = {}
    took_s: list[float] = []
    sent = 0
    began_s = time.perf_counter()
    for descriptor, (connection, frame) in connections.items():
        asked_s[descriptor] = time.perf_counter()
        connection.send(frame)
        sent += 1
    while len(took_s) < sent:
        for descriptor, _ in epoll.poll():
            connection, frame = connections[descriptor]
            answer = connection.recv(512)
            now_s = time.perf_counter()
            assert answer[-5:-3] == b"\0\0", answer  # error code, before the tagged fields of three levels
            took_s.append(now_s - asked_s[descriptor])
            if sent < request_count:
                asked_s[descriptor] = now_s
                connection.send(frame)
                sent += 1
    all_s = time.perf_counter() - began_s
    for connection, _ in connections.values():
        connection.close()
    epoll.close()
    return all_s, took_s


class Measured:
    """One broker with so many connections."""

    def __init__(self, broker: MeasuredBroker, connection_count: int, request_count: int) -> None:
        self.broker = broker
        self.connection_count = connection_count
        self.request_count = request_count
        self.rates: list[float] = []
        self.costs: list[float] = []
        self.took_s: list[float] = []
        client = Client(*broker.address, client_id="bench")
        self._frames = prepare(client, [f"g-{connection_count}-{number}" for number in range(connection_count)])
        client.close()
        commit(broker.address, self._frames, 500)

    def run(self) -> None:
        """One round."""
        spent_s = self.broker.cpu_s()
        all_s, took_s = commit(self.broker.address, self._frames, self.request_count)
        self.rates.append(self.request_count / all_s)
        self.costs.append((self.broker.cpu_s() - spent_s) / self.request_count * 1e6)
        self.took_s += took_s


@contextlib.contextmanager
def kshim_with(policy: str, folder: Path) -> Iterator[MeasuredBroker]:
    """kshim with data in a new directory."""
    command = [str(Path(sys.executable).with_name("kshim")), "serve", "--listen=127.0.0.1:0"]
    command += [f"--data-dir={folder / policy}", f"--fsync={policy}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().decode().strip()
        yield MeasuredBroker(policy, bootstrap, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def bare_syncs(folder: Path, count: int) -> list[float]:
    """Seconds of an append of 128 bytes and its fdatasync, in a process that does nothing else."""
    descriptor = os.open(folder / "bare", os.O_RDWR | os.O_CREAT)
    took_s = []
    for number in range(count):
        began_s = time.perf_counter()
        os.pwrite(descriptor, bytes(128), number * 128)
        os.fdatasync(descriptor)
        took_s.append(time.perf_counter() - began_s)
    os.close(descriptor)
    return took_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--data-dir", type=Path, help="where to make directories (default: the system's temporary one)")
    add_broker_options(parser)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.data_dir) as name,
        chosen_brokers(options) as others,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        for broker in others:
            if broker.name == "kshim":
                broker.name = "in memory"
        policies = [] if options.no_kshim else [stack.enter_context(kshim_with(policy, folder)) for policy in POLICIES]
        rows = [Measured(broker, count, options.requests) for count in CONNECTIONS for broker in [*others, *policies]]
        syncs: list[float] = []
        for _ in range(options.rounds):
            syncs += bare_syncs(folder, 300)
            for row in rows:
                row.run()
    print(f"{'fsync':<12}{'connections':>12}   {'commits/s':<28}{'ms: median':>11}{'99 %':>8}   broker CPU us each")
    for row in rows:
        rates, costs, took = sorted(row.rates), sorted(row.costs), sorted(row.took_s)
        rate = f"{statistics.median(rates):,.0f}  [{rates[0]:,.0f}-{rates[-1]:,.0f}]"
        cost = f"{statistics.median(costs):.0f}  [{costs[0]:.0f}-{costs[-1]:.0f}]"
        middle, late = statistics.median(took) * 1e3, took[len(took) * 99 // 100] * 1e3
        print(f"{row.broker.name:<12}{row.connection_count:>12}   {rate:<28}{middle:>11.2f}{late:>8.2f}   {cost}")
    syncs.sort()
    middle, late = statistics.median(syncs) * 1e3, syncs[len(syncs) * 99 // 100] * 1e3
    print(f"\nA bare append and fdatasync on that disk: {middle:.2f} ms, 99 % {late:.2f} ms")


if __name__ == "__main__":
    main()
