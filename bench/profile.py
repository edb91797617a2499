"""Where the CPU of a request goes in a broker that clients ask over a socket.

    python -m bench.profile MEASURE [--seconds 5]

`kshim serve` with a data directory, in a process of its own, is asked over one connection as fast as it answers, with
the requests of `bench.instructions`. While it works, a timer of its CPU time in Python looks every few milliseconds what it is
at. Printed: CPU us a request, and percent of it by part; the kernel's part is what the system counts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from bench.instructions import MEASURES, PARTITIONS, TOPIC, WARM, AnyBroker, AnyPeer, Sent
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

NEEDS_OTHERS: Final = frozenset({"join-100", "join-1000", "leave"})
"""Measures of members that wait for each other, or that end."""
MEASURABLE: Final = tuple(name for name in MEASURES if name not in NEEDS_OTHERS)
PARTS: Final = {
    "<kshim_protocol parse": "decode",
    "<kshim_protocol": "encode",
    "kshim_protocol/records/": "records",
    "kshim_protocol/frame": "framing",
    "kshim_protocol/": "encode",
    "/trio/": "loop",
    "kshim/server/epoll_loop": "loop",
    "kshim/server/clock": "loop",
    "kshim/server/timers": "loop",
    "kshim/server/": "framing",
    "kshim/broker/router": "route",
    "kshim/broker/request": "route",
    "kshim/broker/step_applier": "route",
    "kshim/partitions/durability": "sync",
    "kshim/storage/segments/file_sync": "sync",
    "kshim/storage/": "log",
    "kshim/cli/": "stderr",
    "kshim/": "state",
}
"""A part of the way of a request by where its code is; the first that fits counts. `records`: batches checked and made;
`state`: what handlers, coordinators and partitions decide and remember; `log`: writing and reading files."""
ORDER: Final = ("kernel", *dict.fromkeys(PARTS.values()), "other")
_INTERVAL_S: Final = 0.002
_IDLE_S: Final = 0.02


class Spent(NamedTuple):
    """What a process has used so far: seconds of CPU in Python and in the kernel, and how often each part was seen."""

    user_s: float
    system_s: float
    seen: dict[str, int]


class Split(NamedTuple):
    """CPU us a request, and the percentage of it by part, in the order of `ORDER`."""

    cpu_us: float
    percent: dict[str, float]


# In the broker's process


def part_of(frame: FrameType | None) -> str:
    """The part that a stack of frames is at work in: that of the innermost one that tells."""
    while frame is not None:
        path = frame.f_code.co_filename
        for where, part in PARTS.items():
            if where in path:
                return part
        frame = frame.f_back
    return "other"


def serve(report: str, arguments: list[str]) -> None:
    """Run `kshim` with a timer; each SIGUSR1 has what was spent until then written to the file `report`."""
    from kshim.cli.main import main as kshim

    seen: Counter[str] = Counter()

    def look(signal_number: int, frame: FrameType | None) -> None:
        seen[part_of(frame)] += 1

    def tell(signal_number: int, frame: FrameType | None) -> None:
        times = os.times()
        Path(f"{report}.new").write_text(json.dumps(Spent(times.user, times.system, seen)))
        Path(f"{report}.new").rename(report)

    signal.signal(signal.SIGVTALRM, look)
    signal.signal(signal.SIGUSR1, tell)
    signal.setitimer(signal.ITIMER_VIRTUAL, _INTERVAL_S, _INTERVAL_S)
    sys.argv = ["kshim", *arguments]
    kshim()


# In the client's


class SocketPeer(AnyPeer):
    """With a socket; `sent` waits for one answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")

    def put(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def sent(self) -> list[Sent]:
        size = self._reader.read(4)
        return [size + self._reader.read(int.from_bytes(size, "big"))]


class RemoteBroker(AnyBroker):
    """A broker in a process of its own that runs `serve`."""

    def __init__(self, process: subprocess.Popen[bytes], address: tuple[str, int], report: Path) -> None:
        self._process = process
        self._address = address
        self._report = report

    def peer(self) -> SocketPeer:
        return SocketPeer(self._address)

    def create_topic(self, name: str, partition_count: int) -> None:
        topic = CreatableTopic(
            name=name, num_partitions=partition_count, replication_factor=1, assignments=(), configs=()
        )
        self.peer().ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)

    def pass_time(self) -> None:
        """Its clock goes by itself."""

    def wait_until_idle(self) -> None:
        """Until it has done what it does in idle turns after its start."""
        before_s, now_s = -1.0, 0.0
        while now_s - before_s > _IDLE_S:
            time.sleep(0.3)
            before_s, now_s = now_s, self.spent().user_s

    def spent(self) -> Spent:
        """What it has used so far."""
        self._process.send_signal(signal.SIGUSR1)
        while not self._report.exists():
            time.sleep(0.001)
        spent = Spent(*json.loads(self._report.read_text()))
        self._report.unlink()
        return spent


@contextmanager
def running() -> Iterator[RemoteBroker]:
    """kshim over a new data directory, its log thrown away, with the topic that measures use."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        command = [sys.executable, "-m", "bench.profile", "--serve", str(report)]
        arguments = ["serve", "--listen=127.0.0.1:0", f"--data-dir={folder}/data"]
        arguments.append("--config=group.initial.rebalance.delay.ms=0")
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout is not None
                host, _, port = process.stdout.readline().decode().strip().rpartition(":")
                broker = RemoteBroker(process, (host, int(port)), report)
                broker.create_topic(TOPIC, PARTITIONS)
                yield broker
            finally:
                process.terminate()


def split_of(name: str, seconds: float) -> Split:
    """Measure for about that long, after a warm-up."""
    with running() as broker:
        act = MEASURES[name].prepare(broker)
        for _ in range(10 * WARM):
            act()
        broker.wait_until_idle()
        before = broker.spent()
        count = _repeat(act, seconds)
        after = broker.spent()
    user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
    seen = Counter(after.seen)
    seen.subtract(before.seen)
    cpu_s = user_s + system_s
    percent = {part: 100 * user_s / cpu_s * times / max(seen.total(), 1) for part, times in seen.items()}
    percent["kernel"] = 100 * system_s / cpu_s
    return Split(cpu_s / count * 1e6, {part: percent.get(part, 0.0) for part in ORDER})


def _repeat(act: Callable[[], object], seconds: float) -> int:
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        act()
        count += 1
    return count


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="+", choices=MEASURABLE, metavar="MEASURE", help=", ".join(MEASURABLE))
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    print(f"{'':20}{'CPU us':>8}" + "".join(f"{part:>9}" for part in ORDER))
    for name in options.measures:
        split = split_of(name, options.seconds)
        print(f"{name:20}{split.cpu_us:8.1f}" + "".join(f"{split.percent[part]:8.1f}%" for part in ORDER), flush=True)


if __name__ == "__main__":
    main()
