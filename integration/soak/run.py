"""Steady load for long: does memory stay flat, is every record read, does anything report an error?

    python -m integration.soak.run --minutes 30 [--seed N]

Producers (idempotent, transactional, some aborted) write to four topics; 100 consumers in 20 groups, four processes of
librdkafka, read committed records and commit them. A consumer leaves and another joins every two seconds or so; every
two minutes a process with 25 of them is killed and a new one begins. Retention cuts the topics all the while. Printed:
the broker's memory, processor time, disk and descriptors every minute; in the end whether each group has read every
record it could, and each error that anything reported. Exit code 0: all read, memory flat, no error unexplained.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

from integration.support.kshim import KshimProcess

TOPICS = ("soak-a", "soak-b", "soak-c", "soak-d")
PARTITIONS = 8
GROUPS = tuple((f"group-{number:02d}{'-sticky' if number % 2 else ''}", TOPICS[number % 4]) for number in range(20))
PROCESSES = 4
SAMPLE_S = 10
KILL_S = 120
WARMUP = 1 / 3
"""Of the run: until then caches, retention and the ring of the history fill up."""
GROWTH_MAX = 0.05
"""So much of its memory may the broker grow by, from the end of the warm-up to the end, on the fitted line."""
CONFIG = {
    "log.retention.ms": "90000",
    "log.segment.bytes": "1048576",
    "log.roll.ms": "20000",
    "log.retention.check.interval.ms": "10000",
    "kshim.history.max.events": "1000",
    "max.incremental.fetch.session.cache.slots": "200",
}
"""So that what is bounded is full before the end of the warm-up: the logs, the history of
rebalances, the fetch sessions of consumers that are gone."""
COMPLAINTS = re.compile(r" (WARN|ERROR) |Traceback")


class Sample(NamedTuple):
    """What the broker holds at an instant."""

    at_s: float
    rss_bytes: int
    cpu_s: float
    descriptors: int
    disk_bytes: int


def sample(process: psutil.Process, data: Path, begun_s: float) -> Sample:
    """Look at the broker."""
    times = process.cpu_times()
    disk = 0
    for path in data.rglob("*"):
        try:
            disk += path.stat().st_blocks * 512
        except FileNotFoundError:  # retention was quicker
            continue
    return Sample(
        time.monotonic() - begun_s, process.memory_info().rss, times.user + times.system, process.num_fds(), disk
    )


class Children:
    """The processes that make the load."""

    def __init__(self, bootstrap: str, directory: Path, rate: float, seed: int) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._chance = random.Random(seed)
        self._number = 0
        self.kills = 0
        self.ledgers: list[Path] = []
        self._producer = self._start("producer", str(rate), *TOPICS)
        places = [f"{group}:{topic}" for group, topic in GROUPS for _ in range(5)]
        self._shares = [places[index::PROCESSES] for index in range(PROCESSES)]
        self._members = [self._start_members(share) for share in self._shares]

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._number += 1
        ledger = self._directory / f"ledger-{self._number}"
        self.ledgers.append(ledger)
        command = [sys.executable, "-m", f"integration.soak.{module}", self._bootstrap, str(ledger), *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE)

    def _start_members(self, share: list[str]) -> subprocess.Popen[bytes]:
        return self._start("member", str(self._chance.randrange(1 << 30)), *share)

    def kill_one(self) -> None:
        """A process of members dies without a word, and a new one takes its place."""
        index = self._chance.randrange(PROCESSES)
        self._members[index].kill()
        self._reap(self._members[index])
        self._members[index] = self._start_members(self._shares[index])
        self.kills += 1

    def require_running(self) -> None:
        """Raises AssertionError when one has ended by itself."""
        assert self._producer.poll() is None, "the producers have ended"
        assert all(member.poll() is None for member in self._members), "members have ended"

    def stop_producing(self) -> None:
        """Let the producers flush and end."""
        self._reap(self._producer)

    def stop(self) -> None:
        """Let the members leave and end."""
        for member in self._members:
            assert member.stdin is not None
            member.stdin.close()
        for member in self._members:
            member.wait(60)

    @staticmethod
    def _reap(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


class Findings:
    """What the ledgers say in the end."""

    def __init__(self, ledgers: list[Path]) -> None:
        self.errors: Counter[str] = Counter()
        self.wrote: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.ranges: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self.read = self.churns = 0
        for ledger in ledgers:
            for line in ledger.read_text().splitlines():
                self._note(line)

    @property
    def produced(self) -> int:
        """Records that have to be read."""
        return sum(map(len, self.wrote.values()))

    def _note(self, line: str) -> None:
        word, *rest = line.split(" ")
        if word == "wrote":
            self.wrote[rest[0], int(rest[1])].update(map(int, rest[2:]))
        elif word == "read":
            first, following = int(rest[2]), int(rest[3])
            self.ranges[rest[0], int(rest[1])].append((first, following))
            self.read += following - first
        elif word == "churn":
            self.churns += 1
        else:
            self.errors[re.sub(r"\d+", "N", " ".join(rest))] += 1

    def unread(self) -> list[str]:
        """Records that were promised to be there, and that a group has not read."""
        found = []
        for group, topic in GROUPS:
            for partition in range(PARTITIONS):
                covered: set[int] = set()
                for first, following in self.ranges[group, partition]:
                    covered.update(range(first, following))
                missing = self.wrote[topic, partition] - covered
                if missing:
                    found.append(f"{group} has not read {len(missing)} of {topic}-{partition}, first {min(missing)}")
        return found


def line_through(samples: list[Sample]) -> tuple[float, float]:
    """Memory by least squares: bytes at the first and at the last of `samples`."""
    count = len(samples)
    mean_x = sum(each.at_s for each in samples) / count
    mean_y = sum(each.rss_bytes for each in samples) / count
    slope = sum((each.at_s - mean_x) * (each.rss_bytes - mean_y) for each in samples) / sum(
        (each.at_s - mean_x) ** 2 for each in samples
    )
    return mean_y + slope * (samples[0].at_s - mean_x), mean_y + slope * (samples[-1].at_s - mean_x)


def soak(directory: Path, minutes: float, rate: float, seed: int) -> int:
    """Run it; returns the exit code."""
    broker = KshimProcess(directory, durable=True, topics=dict.fromkeys(TOPICS, PARTITIONS), config=CONFIG)
    broker.start()
    process = psutil.Process(broker.pid)
    begun_s = time.monotonic()
    samples = [sample(process, broker.data, begun_s)]
    children = Children(broker.bootstrap, directory, rate, seed)
    end_s, kill_at_s = begun_s + minutes * 60, begun_s + KILL_S
    print("minute   MiB   CPU, s   descriptors   MiB on disk", flush=True)
    while time.monotonic() < end_s:
        time.sleep(SAMPLE_S)
        children.require_running()
        samples.append(sample(process, broker.data, begun_s))
        if len(samples) % 6 == 1:
            told = samples[-1]
            print(
                f"{told.at_s / 60:6.1f} {told.rss_bytes / 2**20:6.1f} {told.cpu_s:8.1f} {told.descriptors:12d}"
                f" {told.disk_bytes / 2**20:13.1f}",
                flush=True,
            )
        if time.monotonic() > kill_at_s:
            kill_at_s += KILL_S
            children.kill_one()
    children.stop_producing()
    time.sleep(15)  # the groups come to rest and read to the end
    children.stop()
    findings = Findings(children.ledgers)
    broker.stop()
    unread = findings.unread()
    complaints = Counter(
        re.sub(r"\d+", "N", line) for line in broker.log.read_text().splitlines() if COMPLAINTS.search(line)
    )
    settled = samples[int(len(samples) * WARMUP) :]
    first_bytes, last_bytes = line_through(settled)
    growth = last_bytes / first_bytes - 1
    print(
        f"{minutes:g} minutes, seed {seed}: {findings.produced:,} records acknowledged, offsets of {findings.read:,} read, "
        f"{findings.churns} members left and replaced, {children.kills} processes of 25 killed"
    )
    print(
        f"memory after a third of it {first_bytes / 2**20:.1f} MiB, at the end {last_bytes / 2**20:.1f} MiB "
        f"({growth:+.1%}), most {max(each.rss_bytes for each in samples) / 2**20:.1f} MiB; "
        f"{samples[-1].cpu_s / samples[-1].at_s:.0%} of a core"
    )
    for what, count in (findings.errors + complaints).most_common(20):
        print(f"error, {count} times: {what}")
    for line in unread[:20]:
        print(line)
    is_well = not unread and not findings.errors and not complaints and growth <= GROWTH_MAX
    print("nothing unexplained" if is_well else "NOT WELL")
    return 0 if is_well else 1


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=40, help="records a second to each topic (default 40)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        return soak(Path(directory), options.minutes, options.rate, options.seed)


if __name__ == "__main__":
    sys.exit(main())
