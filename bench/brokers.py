"""The brokers that a benchmark compares: kshim, started by it, and any other that runs already on this machine."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil


class MeasuredBroker:
    """A broker under measurement. `process` is its process where it is on this machine, for its CPU time."""

    def __init__(self, name: str, bootstrap: str, process: psutil.Process | None) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._process = process

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `bootstrap`."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def cpu_s(self) -> float:
        """CPU time of the broker's process so far, all threads and the kernel's part; nan where it is not known."""
        if self._process is None:
            return float("nan")
        times = self._process.cpu_times()
        return times.user + times.system

    def fine_cpu_s(self) -> float:
        """The same in nanosecond steps where Linux tells, but without threads that have ended."""
        return float("nan") if self._process is None else spent_cpu_s(self._process.pid)


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap` and `--no-kshim`."""
    parser.add_argument(
        "--bootstrap",
        metavar="NAME=HOST:PORT",
        action="append",
        default=[],
        help="measure this running broker too; may be repeated",
    )
    parser.add_argument("--no-kshim", action="store_true", help="measure only what --bootstrap names")


@contextlib.contextmanager
def chosen_brokers(options: argparse.Namespace, *of_kshim: str) -> Iterator[list[MeasuredBroker]]:
    """The brokers that the options name; kshim runs in memory, with default settings but for the options `of_kshim`, while the block does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then, too
    with contextlib.ExitStack() as stack:
        brokers = [] if options.no_kshim else [stack.enter_context(running_kshim(*of_kshim))]
        for text in options.bootstrap:
            name, _, bootstrap = text.rpartition("=")
            brokers.append(
                MeasuredBroker(name or "broker", bootstrap, listening_process(int(bootstrap.split(":")[-1])))
            )
        yield brokers


@contextlib.contextmanager
def running_kshim(*options: str) -> Iterator[MeasuredBroker]:
    """kshim in a process of its own, its log thrown away."""
    command = [str(Path(sys.executable).with_name("kshim")), "serve", "--listen=127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().decode().strip()
        yield MeasuredBroker("kshim", bootstrap, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def spent_cpu_s(pid: int) -> float:
    """CPU time of a process's living threads so far; in the system's ticks where that is all that can be had."""
    tasks = Path(f"/proc/{pid}/task")
    if tasks.is_dir():
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def listening_process(port: int) -> psutil.Process | None:
    """The local process that listens on `port`, if it can be told."""
    try:
        for connection in psutil.net_connections("tcp"):
            is_it = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port
            if is_it and connection.pid:
                return psutil.Process(connection.pid)
    except psutil.Error:
        return None
    return None
