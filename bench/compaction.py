"""What compaction costs while it runs: heartbeat latency, commits a second and CPU, with it and without.

    python -m bench.compaction [--rounds 5] [--seconds 4] [--rate 1000]

Two kshim in processes of their own, each with a data directory, one with `log.cleaner.enable=false`. In turn, round
after round, each gets OffsetCommits of 100 partitions over 4 connections for 10 groups, again and again the same
partitions, first at `--rate` a second, then as fast as it answers; meanwhile one member sends a heartbeat every 2 ms.
Printed: the heartbeats' p50, p99 and greatest latency over all rounds, commits a second and CPU us a commit (median
[lowest-highest]), and the most bytes the directory took. Then, without a server, what compacting 1 MiB costs in this
process, and what a Python process costs that would do it instead.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.brokers import MeasuredBroker
from bench.heartbeats import join
from kshim.storage.cleaner import clean
from kshim.storage.file_log import FileLog
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import build_key_value_batch

GROUPS = 10
PARTITIONS = 100
CONNECTIONS = 4
BEAT_PAUSE_S = 0.002
WALL_MS = 1_700_000_000_000


class Row:
    """What one side showed, over all rounds."""

    def __init__(self) -> None:
        self.latencies_ms: list[float] = []
        self.rates: list[float] = []
        self.costs_us: list[float] = []
        self.largest_bytes = 0


@contextlib.contextmanager
def running(folder: Path, *options: str) -> Iterator[MeasuredBroker]:
    """kshim on a data directory, its log thrown away."""
    command = [str(Path(sys.executable).with_name("kshim")), "serve", "--listen=127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, f"--data-dir={folder}", f"--topic=bench:{PARTITIONS}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().decode().strip()
        yield MeasuredBroker("kshim", bootstrap, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def commit_frames(run: int) -> list[bytes]:
    """A commit of all partitions for each group."""
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=run, committed_metadata="")
        for index in range(PARTITIONS)
    )
    topics = (OffsetCommitRequestTopic(name="bench", partitions=partitions),)
    return [
        build_request_frame(
            8,
            8,
            7,
            "bench",
            codec(OffsetCommitRequest, 8).build(
                OffsetCommitRequest(group_id=f"bench-{number}", member_id="", topics=topics)
            ),
            flexible=True,
        )
        for number in range(GROUPS)
    ]


class Load:
    """The connections to one broker."""

    def __init__(self, broker: MeasuredBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        client = Client(*broker.address, client_id="bench")
        self._beat_frame = join(client, "beating")
        self._client = client
        self._beater = socket.create_connection(broker.address)
        self._committers = [socket.create_connection(broker.address) for _ in range(CONNECTIONS)]
        for connection in (self._beater, *self._committers):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = commit_frames(1)

    def run(self, seconds: float, rate: float | None, row: Row) -> None:
        """Commit at `rate`, or as fast as may be, and beat meanwhile."""
        epoll = select.epoll()
        by_descriptor = {connection.fileno(): connection for connection in (self._beater, *self._committers)}
        for descriptor in by_descriptor:
            epoll.register(descriptor, select.EPOLLIN)
        idle = list(self._committers)
        beater = self._beater.fileno()
        commit_count = 0
        spent_s = self.broker.cpu_s()
        began_s = now_s = time.perf_counter()
        beat_at_s, beat_sent_s = began_s, 0.0
        while now_s < began_s + seconds or len(idle) < CONNECTIONS or beat_sent_s:
            is_over = now_s >= began_s + seconds
            due = commit_count + len(idle) if rate is None else int((now_s - began_s) * rate)
            while not is_over and idle and commit_count < due:
                idle.pop().send(self._frames[commit_count % GROUPS])
                commit_count += 1
            if not is_over and not beat_sent_s and now_s >= beat_at_s:
                self._beater.send(self._beat_frame)
                beat_sent_s = time.perf_counter()
            for descriptor, _ in epoll.poll(0.0005):
                answer = by_descriptor[descriptor].recv(65536)
                assert answer, "the broker closed"
                if descriptor == beater:
                    now_s = time.perf_counter()
                    row.latencies_ms.append((now_s - beat_sent_s) * 1_000)
                    beat_at_s, beat_sent_s = now_s + BEAT_PAUSE_S, 0.0
                else:
                    idle.append(by_descriptor[descriptor])
            now_s = time.perf_counter()
            if commit_count % 500 == 0:
                row.largest_bytes = max(row.largest_bytes, size_of(self.folder))
        row.rates.append(commit_count / (now_s - began_s))
        row.costs_us.append((self.broker.cpu_s() - spent_s) / max(commit_count, 1) * 1e6)
        row.largest_bytes = max(row.largest_bytes, size_of(self.folder))
        epoll.close()

    def close(self) -> None:
        for connection in (self._beater, *self._committers):
            connection.close()


def size_of(folder: Path) -> int:
    """Bytes of the offsets topic's segments."""
    total = 0
    for path in folder.glob("__consumer_offsets-*/*.log*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def compaction_cost(folder: Path, records_a_batch: int) -> tuple[float, float, float]:
    """Of 8 MiB of commits for 1,000 partitions: CPU ms for 1 MiB, the longest and the median slice in CPU ms."""
    shutil.rmtree(folder, ignore_errors=True)
    log = FileLog(str(folder))
    number = 0
    while log.size_bytes < 8 << 20:
        log.append(
            build_key_value_batch(
                [
                    (
                        b"\0\1\0\4grp1\0\6orders%b" % (at % 1_000).to_bytes(4, "big"),
                        b"\0\4%b\0\0\0\0\1%b\0" % (bytes(8), bytes(8)),
                    )
                    for at in range(number, number + records_a_batch)
                ],
                WALL_MS,
            )
        )
        number += records_a_batch
    log.roll()
    log.sync()
    size_bytes = log.size_bytes
    slices: list[float] = []
    task = clean(
        log,
        first_dirty_offset=0,
        before_offset=number,
        now_ms=WALL_MS,
        delete_retention_ms=0,
        producers_since_ms=0,
        segment_bytes=1 << 30,
        key_map_bytes=1 << 27,
    )
    began_s = time.process_time()
    result = None
    with contextlib.suppress(StopIteration):
        while True:
            slice_s = time.thread_time()
            job = task.send(result)
            slices.append((time.thread_time() - slice_s) * 1_000)
            result = None if job is None else job()
    cost_ms = (time.process_time() - began_s) * 1_000 / (size_bytes / (1 << 20))
    log.close()
    slices.sort()
    return cost_ms, slices[-1], slices[len(slices) // 2]


def process_cost_ms() -> float:
    """CPU ms of a Python process that imports what a clean needs and ends."""

    def children_s() -> float:
        times = psutil.Process().cpu_times()
        return times.children_user + times.children_system

    before_s = children_s()
    for _ in range(5):
        subprocess.run([sys.executable, "-c", "import kshim.storage.cleaner, kshim.storage.file_log"], check=True)
    return (children_s() - before_s) * 1_000 / 5


def report(name: str, row: Row) -> None:
    latencies = sorted(row.latencies_ms)
    p50, p99 = (latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
    rates, costs = sorted(row.rates), sorted(row.costs_us)
    print(
        f"{name:<28}{p50:>8.2f}{p99:>8.2f}{latencies[-1]:>8.2f}   "
        f"{f'{statistics.median(rates):,.0f} [{rates[0]:,.0f}-{rates[-1]:,.0f}]':<26}"
        f"{f'{statistics.median(costs):.0f} [{costs[0]:.0f}-{costs[-1]:.0f}]':<20}{row.largest_bytes / 1e6:.1f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rate", type=float, default=1_000)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: dict[str, Row] = {}
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kshim-bench-")))
        loads: dict[str, Load] = {}
        for name, given in (("compacting", ()), ("not compacting", ("--config=log.cleaner.enable=false",))):
            folder = root / name.replace(" ", "-")
            load = Load(stack.enter_context(running(folder, *given)), folder)
            stack.callback(load.close)
            loads[name] = load
        for _ in range(options.rounds):
            for rate in (options.rate, None):
                for name, load in loads.items():
                    row = rows.setdefault(f"{name}, {'full speed' if rate is None else f'{rate:,.0f}/s'}", Row())
                    load.run(options.seconds, rate, row)
        print(f"{'':<28}{'p50':>8}{'p99':>8}{'max ms':>8}   {'commits/s':<26}{'CPU us each':<20}largest MB")
        for name, row in rows.items():
            report(name, row)
        for records_a_batch in (1, 100):
            cost_ms, longest_ms, median_ms = compaction_cost(root / "log-0", records_a_batch)
            print(
                f"compacting 1 MiB, {records_a_batch} records a batch: {cost_ms:.1f} ms CPU;"
                f" slices: median {median_ms:.2f} ms, longest {longest_ms:.2f} ms"
            )
    print(f"a process that only imports the cleaner: {process_cost_ms():.0f} ms CPU")


if __name__ == "__main__":
    main()
