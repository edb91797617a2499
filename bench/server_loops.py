"""CPU a request of the server's loops, without any broker behind them.

    python bench/server_loops.py [--rounds 5] [--requests 20000]

A router answers every frame with the same bytes; a load generator in its own process keeps a fixed number of requests
in flight; the loops take turns, round after round. Printed: median [lowest-highest] CPU microseconds a request of the
server process, the kernel's part included. `floor` is a bare epoll loop without trio, fairness, limits or timers.
"""

from __future__ import annotations

import argparse
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import trio

from kshim.broker.connection import Connection
from kshim.coordinator.step import Now
from kshim.scheduling.background_tasks import BackgroundTasks
from kshim.scheduling.pace import Pace
from kshim.server.server import LoopName, serve

REQUEST = (26).to_bytes(4, "big") + b"\0\x0c\0\x04\0\0\0\x07" + bytes(18)
ANSWER = (12).to_bytes(4, "big") + b"\0\0\0\x07" + bytes(8)
PATTERNS = ((1, 1), (1, 8), (64, 1), (64, 8))
LOOPS = ("floor", "epoll", "tasks")
WARMUP = 2_000


class FixedAnswer:
    """Answers at once; has no timers."""

    def __init__(self) -> None:
        self.background_tasks = BackgroundTasks()
        self.pace = Pace()
        self.on_fired: Callable[[tuple[str, ...]], None] = lambda key: None

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        connection.reply(ANSWER)

    def closed(self, connection: Connection) -> None:
        pass

    def next_deadline(self) -> int | None:
        return None

    def advance(self, now: Now) -> None:
        pass

    def next_real_deadline(self) -> int | None:
        return None

    def advance_real(self, real_ms: int) -> None:
        pass

    def finish_loading(self) -> None:
        pass

    def warm_up(self) -> bool:
        return False


def run_server(loop: str) -> None:
    """The server process: prints its port, serves until killed."""

    def listening(addresses: Sequence[tuple[str, int]]) -> None:
        print(addresses[0][1], flush=True)

    async def main(name: LoopName) -> None:
        await serve(FixedAnswer(), host="127.0.0.1", port=0, loop=name, on_listening=listening)

    if loop == "floor":
        run_floor()
    else:
        trio.run(main, "tasks" if loop == "tasks" else "epoll")


def run_floor() -> None:
    """What Python can do at best with one epoll set: cut whole frames, answer each, nothing else."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    sockets: dict[int, socket.socket] = {}
    while True:
        for fd, _ in epoll.poll():
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sockets[sock.fileno()] = sock
                epoll.register(sock, select.EPOLLIN)
                continue
            sock = sockets[fd]
            data = sock.recv(65536)
            if not data:
                epoll.unregister(sock)
                sockets.pop(fd).close()
                continue
            at = 0
            out = []
            while at < len(data):
                at += 4 + int.from_bytes(data[at : at + 4], "big")
                out.append(ANSWER)
            sock.sendall(b"".join(out))


def run_load(port: int, connections: int, depth: int, requests: int) -> None:
    """The load process: warms up, says so, waits for a line, sends exactly `requests` more, says so."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for sock in sockets:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    drive(sockets, depth, WARMUP)
    print("ready", flush=True)
    sys.stdin.readline()
    drive(sockets, depth, requests)
    print("done", flush=True)


def drive(sockets: list[socket.socket], depth: int, requests: int) -> None:
    """Keep `depth` requests in flight on each connection until `requests` are answered."""
    epoll = select.epoll()
    batch = REQUEST * depth
    due_bytes = len(ANSWER) * depth
    to_send = requests // depth
    missing = {}
    by_fd = {sock.fileno(): sock for sock in sockets}
    for sock in sockets:
        epoll.register(sock, select.EPOLLIN)
        sock.sendall(batch)
        missing[sock.fileno()] = due_bytes
        to_send -= 1
    in_flight = len(sockets)
    while in_flight:
        for fd, _ in epoll.poll():
            missing[fd] -= len(by_fd[fd].recv(65536))
            if missing[fd]:
                continue
            if to_send > 0:
                by_fd[fd].sendall(batch)
                missing[fd] = due_bytes
                to_send -= 1
            else:
                in_flight -= 1
    epoll.close()


def cpu_us(pid: int) -> float:
    """CPU time of a process so far; from the scheduler where it tells, whose clock does not tick."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1_000
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return (times.user + times.system) * 1e6


def measure(port: int, pid: int, connections: int, depth: int, requests: int) -> float:
    """CPU us a request of the server `pid` under one pattern."""
    command = [sys.executable, __file__, "--load", str(port), str(connections), str(depth), str(requests)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdout.readline()
        time.sleep(0.02)  # let the server fall asleep, so that its account is settled
        before_us = cpu_us(pid)
        load.stdin.write("go\n")
        load.stdin.flush()
        load.stdout.readline()
        time.sleep(0.02)
        return (cpu_us(pid) - before_us) / (requests // depth * depth)


def compare(rounds: int, requests: int) -> None:
    """Start every loop once, measure them in turns, print the table."""
    servers = {}
    figures: dict[tuple[str, tuple[int, int]], list[float]] = {}
    try:
        for loop in LOOPS:
            process = subprocess.Popen([sys.executable, __file__, "--serve", loop], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            servers[loop] = (process, int(process.stdout.readline()))
        for _ in range(rounds):
            for pattern in PATTERNS:
                for loop, (process, port) in servers.items():
                    count = requests * (4 if pattern[1] > 1 else 1)
                    figures.setdefault((loop, pattern), []).append(measure(port, process.pid, *pattern, count))
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.communicate()
    print(f"| CPU us a request ({rounds} rounds) | " + " | ".join(f"{n} x {d}" for n, d in PATTERNS) + " |")
    print("|---" * (len(PATTERNS) + 1) + "|")
    for loop in servers:
        cells = [figures[loop, pattern] for pattern in PATTERNS]
        print(
            f"| {loop} | " + " | ".join(f"{statistics.median(c):.2f} [{min(c):.2f}-{max(c):.2f}]" for c in cells), "|"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--serve", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_server(options.serve)
    elif options.load:
        run_load(*options.load)
    else:
        compare(options.rounds, options.requests)
