"""What the history costs: a heartbeat and a rebalance with it and without.

    python -m bench.history [--lives 5] [--rounds 15] [--slice-ms 20]

Three nodes, each in a process of its own without sockets, take turns in short slices: one whose history is cut out
(`none`, which no option offers), one with its ring (`ring`, as always), one with `--events-topic` (`topic`). All write
their log to nowhere, as a broker whose stderr is a file would. A group of 10 or 100 members rebalances over and over
because its leader joins again. `bare`: a JoinGroup and a SyncGroup of every member and nothing else; `as clients do`:
also the Heartbeat that tells a member to rejoin, the OffsetCommit before it does, and the OffsetFetch after its Sync, as
with the default settings of Java and kafka-python. Before it is measured a node has filled its ring.

Then kshim serves the same over sockets, and its CPU time of a piece of work is taken, kernel and
all threads, because that is what limits how much it serves. Printed: CPU us of `none` without sockets; what the others
add to it, median over the lives of the median over the rounds of the difference to `none` in the same round; CPU us of
kshim with sockets, and the addition as a share of that.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from bench.brokers import MeasuredBroker, running_kshim
from bench.history_group import WORKS, Group, Sockets
from kshim.broker.client_activity import ConnectedClient
from kshim.broker.cluster import Cluster, RandomIds
from kshim.broker.connection import ANONYMOUS
from kshim.broker.node import Node
from kshim.broker.router import Router
from kshim.cli.log import Log
from kshim.config.broker_config import BrokerConfig
from kshim.config.listeners import SecurityProtocol
from kshim.coordinator.step import Now
from kshim.storage.stores import MemoryStorage

VARIANTS = ("none", "ring", "topic")
WALL_MS = 1_700_000_000_000
FILLING_REBALANCES = 3_000
"""Enough for 10,000 events."""


class BareNode:
    """A node without sockets; each connection is a list of answers. Time passes by 1 ms a piece of work."""

    def __init__(self, variant: str) -> None:
        numbers = iter(range(1, 1 << 60))
        self._ms = 0
        config = BrokerConfig({"kshim.history.topic.enable": "true"} if variant == "topic" else {})
        log = Log(open(os.devnull, "w"), "text", verbosity=0)  # noqa: SIM115 (open as long as the process lives)
        random_ids = RandomIds(
            lambda: f"00000000-0000-4000-8000-{next(numbers):012x}", lambda: next(numbers).to_bytes(16, "big")
        )
        self._cluster = Cluster(
            config, MemoryStorage(), random_ids, cluster_id="bench", on_event=log.coordinator_event, on_defect=fail
        )
        if variant == "none":
            self._cluster.history.observe = lambda event: None  # type: ignore[method-assign]
        self._router = Router(Node(self._cluster, 1, "127.0.0.1", 9092))
        self._cluster.start(self._now)
        self._cluster.create_topic("orders", 100)

    def send(self, frame: bytes, connection: Answers) -> None:
        """One request, without its size."""
        self._router.route(frame, connection, self._now(), self._ms)

    def pass_a_moment(self) -> None:
        """A millisecond: what is due on the real clock happens."""
        self._ms += 1
        while (due_ms := self._router.next_real_deadline()) is not None and due_ms <= self._ms:
            self._router.advance_real(self._ms)

    def _now(self) -> Now:
        return Now(self._ms, WALL_MS + self._ms)


class Answers:
    """A connection whose last answer can be looked at."""

    client_host = "/127.0.0.1"
    client_port = 40_000
    listener_name = "PLAINTEXT"
    security_protocol: SecurityProtocol = "PLAINTEXT"
    principal = ANONYMOUS
    is_authenticated = True
    is_closed = False
    last: bytes = b""

    def __init__(self) -> None:
        self.client = ConnectedClient()

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        self.last = frame or b""

    def hang_up(self, reason: str) -> None:
        """See `Connection.hang_up`."""
        raise AssertionError(reason)


def fail(error: BaseException, request: object) -> None:
    """No defect goes unnoticed."""
    raise error


class InProcess:
    """How a group reaches a node in this process."""

    def __init__(self, node: BareNode, size: int) -> None:
        self.node = node
        self.connections = [Answers() for _ in range(size)]

    def send(self, number: int, frame: bytes) -> None:
        """One request of a member, with its size."""
        self.node.send(frame[4:], self.connections[number])

    def receive(self, number: int) -> bytes:
        """The answer to its latest."""
        return self.connections[number].last

    def work_is_done(self) -> None:
        """Between pieces of work."""
        self.node.pass_a_moment()


def measure(variant: str) -> None:
    """A child: for every `work size count` on stdin does it and prints the CPU seconds."""
    node = BareNode(variant)
    groups: dict[int, Group] = {}
    gc.freeze()
    for line in sys.stdin:
        name, size, count = line.split()
        group = groups.get(int(size))
        if group is None:
            group = groups[int(size)] = Group(InProcess(node, int(size)), int(size))
            for _ in range(FILLING_REBALANCES * 10 // int(size)):
                group.prepare(1)
                group.bare()
        group.prepare(int(count))
        work = getattr(group, name)
        began_s = time.process_time()
        for _ in range(int(count)):
            work()
        print(time.process_time() - began_s, flush=True)


class Child:
    """A process that measures one variant."""

    def __init__(self, variant: str) -> None:
        command = [sys.executable, "-m", "bench.history", "--measure", variant]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def us(self, work: str, size: int, count: int) -> float:
        """CPU us of one piece of work."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{work} {size} {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / count * 1e6

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def children() -> Iterator[list[Child]]:
    """One for each variant."""
    found = [Child(variant) for variant in VARIANTS]
    try:
        yield found
    finally:
        for child in found:
            child.close()


def over_sockets(broker: MeasuredBroker, work: str, size: int, count: int) -> float:
    """CPU us that a piece of work costs a broker as its clients see it: the least of some runs."""
    group = Group(Sockets(*broker.address, size), size)
    costs = []
    for _ in range(8):
        group.prepare(count)
        spent_s = broker.fine_cpu_s()
        for _ in range(count):
            getattr(group, work)()
        costs.append((broker.fine_cpu_s() - spent_s) / count * 1e6)
    group.transport.close()
    return min(costs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slice-ms", type=int, default=20)
    parser.add_argument("--measure", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for _, _, name in WORKS}
    for _ in range(options.lives):
        with children() as found:
            for work, size, name in WORKS:
                rows[name].append(one_life(found, work, size, options.rounds, options.slice_ms))
    print(f"{'work':<34}{'none':>8}{'+ ring':>9}{'+ topic':>9}{'sockets':>9}{'ring':>8}{'topic':>8}")
    with running_kshim() as broker:
        for work, size, name in WORKS:
            none_us, ring_us, topic_us = (statistics.median(column) for column in zip(*rows[name], strict=True))
            base_us = over_sockets(broker, work, size, max(int(options.slice_ms * 1000 / none_us), 1))
            print(
                f"{name:<34}{none_us:>8.1f}{ring_us:>+9.1f}{topic_us:>+9.1f}{base_us:>9.1f}"
                f"{ring_us / base_us:>8.1%}{topic_us / base_us:>8.1%}"
            )


def one_life(found: list[Child], work: str, size: int, rounds: int, slice_ms: int) -> tuple[float, float, float]:
    """CPU us of `none`, and what the others add to it: medians of the rounds, in which they take turns."""
    rough_us = max([child.us(work, size, 3) for child in found])
    count = max(int(slice_ms * 1000 / rough_us), 1)
    rows = []
    for number in range(rounds):
        order = [(number + place) % len(VARIANTS) for place in range(len(VARIANTS))]
        row = {index: found[index].us(work, size, count) for index in order}
        rows.append((row[0], row[1] - row[0], row[2] - row[0]))
    none_us, ring_us, topic_us = (statistics.median(column) for column in zip(*rows, strict=True))
    return none_us, ring_us, topic_us


if __name__ == "__main__":
    main()
