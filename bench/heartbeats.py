"""Heartbeats a second, and what one costs the broker.

    python -m bench.heartbeats [--rounds 5] [--requests 20000] [--bootstrap kafka=127.0.0.1:9092]...
                               [--protocol classic consumer]

Every connection is the one member of a group of its own and has one request in flight: Heartbeat v4 (`classic`), or a
ConsumerGroupHeartbeat v1 with which nothing has changed (`consumer`). A process of its own keeps 1 or 64 such
connections busy; the brokers take turns, round after round, after a warm-up. Printed: median [lowest-highest] requests
a second, CPU microseconds a request of the broker's process with all its threads and the kernel's part, and how busy
the load generator was: near 100 % it was the limit.
"""

from __future__ import annotations

import argparse
import select
import socket
import statistics
import subprocess
import sys
import time
import uuid
from itertools import product
from pathlib import Path

from bench.brokers import MeasuredBroker, add_broker_options, chosen_brokers
from bench.consumer_groups import VERSION, join_alone, made_topic
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest

PROTOCOLS = ("classic", "consumer")
CONNECTIONS = (1, 64)
ERROR_AT = 4 + 4 + 1 + 4  # size, correlation id, tagged fields, throttle time
NO_ERROR = b"\0\0"


def join(client: Client, group_id: str) -> bytes:
    """Become the only member of a group; returns the frame of its heartbeat."""
    member_id = ""
    while client.ask(FindCoordinatorRequest(key=group_id), 3).error_code != ErrorCode.NONE:
        time.sleep(0.1)  # the offsets topic is being made, which only this request brings about
    while True:
        request = GroupMember(group_id, member_id).join(
            9, [("any", b"")], session_timeout_ms=60_000, rebalance_timeout_ms=60_000, protocol_type="bench"
        )
        joined = client.ask(request, 9)
        if joined.error_code == ErrorCode.NONE:
            break
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member_id = joined.member_id
        else:  # being loaded
            time.sleep(0.1)
    sync = GroupMember(group_id, joined.member_id, joined.generation_id).sync(
        5, [(joined.member_id, b"")], protocol_type="bench", protocol_name="any"
    )
    assert client.ask(sync, 5).error_code == ErrorCode.NONE
    heartbeat = HeartbeatRequest(group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id)
    body = codec(HeartbeatRequest, 4).build(heartbeat)
    return build_request_frame(12, 4, 7, "bench", body, flexible=True)


def join_new(client: Client, topic: str) -> bytes:
    """The same in a group of the new protocol."""
    body = codec(ConsumerGroupHeartbeatRequest, VERSION).build(join_alone(client, topic).request())
    return build_request_frame(68, VERSION, 7, "bench", body, flexible=True)


def beat(address: tuple[str, int], frames: list[bytes], request_count: int) -> float:
    """Keep one heartbeat in flight on a connection for each of `frames`; returns the seconds it took."""
    epoll = select.epoll()
    connections: dict[int, tuple[socket.socket, bytes]] = {}
    for frame in frames:
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[connection.fileno()] = (connection, frame)
        epoll.register(connection, select.EPOLLIN)
    sent = received = answer_bytes = 0
    began_s = time.perf_counter()
    for connection, frame in connections.values():
        connection.send(frame)
        sent += 1
    while received < sent:
        for descriptor, _ in epoll.poll():
            connection, frame = connections[descriptor]
            answer = connection.recv(256)
            answer_bytes = answer_bytes or len(answer)
            assert len(answer) == answer_bytes, answer
            assert answer[ERROR_AT : ERROR_AT + 2] == NO_ERROR, f"error {answer[ERROR_AT:]!r}"
            received += 1
            if sent < request_count:
                connection.send(frame)
                sent += 1
    took_s = time.perf_counter() - began_s
    for connection, _ in connections.values():
        connection.close()
    epoll.close()
    return took_s


def generate(bootstrap: str, topic: str, connection_count: int, request_count: int, warm_up_count: int) -> None:
    """The load generator's process: joins, then for every line on stdin runs once and prints how it went."""
    host, _, port = bootstrap.rpartition(":")
    client = Client(host, int(port), client_id="bench")
    frames = [
        join_new(client, topic) if topic else join(client, f"bench-{uuid.uuid4().hex}") for _ in range(connection_count)
    ]
    beat((host, int(port)), frames, warm_up_count)
    print("ready", flush=True)
    for _ in sys.stdin:
        spent_s = time.process_time()
        took_s = beat((host, int(port)), frames, request_count)
        print(took_s, (time.process_time() - spent_s) / took_s, flush=True)


class Generator:
    """One load generator at work on one broker: members of the new protocol where they have a `topic`."""

    def __init__(self, broker: MeasuredBroker, topic: str, connection_count: int, options: argparse.Namespace) -> None:
        self.broker = broker
        self.protocol = "consumer" if topic else "classic"
        self.connection_count = connection_count
        self.request_count: int = options.requests
        self.rows: list[tuple[float, float, float]] = []
        arguments = ["--generate", broker.bootstrap, topic, str(connection_count)]
        arguments += ["--requests", str(options.requests), "--warm-up", str(options.warm_up)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.heartbeats", *arguments],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ready = self._line()
        assert ready == "ready", ready

    def run(self) -> None:
        """One round: (requests a second, CPU us a request, load of the generator)."""
        assert self._process.stdin is not None
        spent_s = self.broker.cpu_s()
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        took_s, load = map(float, self._line().split())
        spent_s = self.broker.cpu_s() - spent_s
        self.rows.append((self.request_count / took_s, spent_s / self.request_count * 1e6, load))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=60_000, metavar="REQUESTS")
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--generate", nargs=3, metavar=("BOOTSTRAP", "TOPIC", "CONNECTIONS"), help=argparse.SUPPRESS)
    add_broker_options(parser)
    options = parser.parse_args()
    if options.generate:
        bootstrap, topic, count = options.generate
        generate(bootstrap, topic, int(count), options.requests, options.warm_up)
        return
    done: list[Generator] = []
    with chosen_brokers(options) as brokers:
        for protocol, count in product(
            options.protocol, CONNECTIONS
        ):  # at a time, so that no session expires meanwhile
            topics = [made_topic(broker, 1) if protocol == "consumer" else "" for broker in brokers]
            generators = [
                Generator(broker, topic, count, options) for broker, topic in zip(brokers, topics, strict=True)
            ]
            for _ in range(options.rounds):
                for generator in generators:
                    generator.run()
            for generator in generators:
                generator.close()
            done += generators
    print(
        f"{'broker':<10}{'protocol':<10}{'connections':>12}   {'heartbeats/s':<28}{'broker CPU us each':<24}generator busy"
    )
    for generator in done:
        rates, costs, loads = (sorted(column) for column in zip(*generator.rows, strict=True))
        rate = f"{statistics.median(rates):,.0f}  [{rates[0]:,.0f}-{rates[-1]:,.0f}]"
        cost = f"{statistics.median(costs):.1f}  [{costs[0]:.1f}-{costs[-1]:.1f}]"
        busy = f"{statistics.median(loads):.0%}"
        print(
            f"{generator.broker.name:<10}{generator.protocol:<10}{generator.connection_count:>12}   "
            f"{rate:<28}{cost:<24}{busy}"
        )


if __name__ == "__main__":
    main()
