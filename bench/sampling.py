"""What `kshim why --all --follow` costs the broker that it samples, beside the heartbeats of the groups there.

    python -m bench.sampling [--groups 1000] [--rounds 4] [--seconds 30] [--bootstrap kafka=HOST:PORT]...

Each group has one member, which sends a heartbeat every three seconds, as clients do by default, on a connection of its own as far as
500 of them go: a broker that wakes up for each heartbeat spends more on it than on one of many that come at once. In turn, nobody
watches and one command does. Printed: milliseconds of the broker's CPU in a second, median [lowest-highest] of the rounds, and what
the watcher adds. kshim has no topic of events here: one that has is asked every five seconds only. A Kafka that is measured should
have `group.initial.rebalance.delay.ms=0`, as groups are made one after the other.
"""

from __future__ import annotations

import argparse
import heapq
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers
from bench.heartbeats import join
from kshim.tools.client import Client

CONNECTIONS_MAX = 500
HEARTBEAT_S = 3.0
OF_KSHIM = ("--no-events-topic", "--config=group.initial.rebalance.delay.ms=0")
_SETTLE_S = 8.0
"""The first look reads all, and is not measured."""


class Heartbeats:
    """A thread that sends each of `frames` every three seconds, evenly spread, and reads the answers."""

    def __init__(self, broker: MeasuredBroker, frames: list[bytes]) -> None:
        self._frames = frames
        self._connections = [socket.create_connection(broker.address) for _ in frames[:CONNECTIONS_MAX]]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        now_s = time.monotonic()
        due = [(now_s + HEARTBEAT_S * place / len(self._frames), place) for place in range(len(self._frames))]
        while not self._is_over.is_set():
            at_s, place = due[0]
            if self._is_over.wait(max(at_s - time.monotonic(), 0)):
                return
            connection = self._connections[place % len(self._connections)]
            connection.sendall(self._frames[place])
            connection.recv(256)
            heapq.heapreplace(due, (at_s + HEARTBEAT_S, place))

    def close(self) -> None:
        """End it."""
        self._is_over.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()


def spent_ms(broker: MeasuredBroker, seconds: float) -> float:
    """The broker's CPU in a second, over some."""
    before_s = broker.fine_cpu_s()
    time.sleep(seconds)
    return (broker.fine_cpu_s() - before_s) / seconds * 1_000


def measured(broker: MeasuredBroker, options: argparse.Namespace) -> dict[str, list[float]]:
    """What was spent in each round, without a watcher and with one."""
    client = Client(*broker.address, client_id="bench")
    heartbeats = Heartbeats(broker, [join(client, f"bench-{uuid.uuid4().hex}") for _ in range(options.groups)])
    client.close()
    command = [sys.executable, "-m", "kshim", "why", "--all", "--follow", "--bootstrap-server", broker.bootstrap]
    found: dict[str, list[float]] = {"heartbeats": [], "and a watcher": []}
    try:
        time.sleep(_SETTLE_S)
        for _ in range(options.rounds):
            found["heartbeats"].append(spent_ms(broker, options.seconds))
            watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(_SETTLE_S)
            found["and a watcher"].append(spent_ms(broker, options.seconds))
            watcher.terminate()
            watcher.wait()
    finally:
        heartbeats.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.sampling", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30)
    add_broker_options(parser)
    options = parser.parse_args()
    with chosen_brokers(options, *OF_KSHIM) as brokers:
        for broker in brokers:
            found = measured(broker, options)
            for name, values in found.items():
                print(
                    f"{broker.name}, {name}: {statistics.median(values):.2f} ms [{min(values):.2f}-{max(values):.2f}]",
                    flush=True,
                )
            without_ms, with_ms = map(statistics.median, found.values())
            print(f"{broker.name}: the watcher adds {with_ms - without_ms:.2f} ms, {with_ms / without_ms - 1:.1%}")


if __name__ == "__main__":
    main()
