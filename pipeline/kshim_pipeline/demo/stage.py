"""The processes of the demo: the broker, incidents on simulated consumers, and two real consumers, one of them killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from kshim_pipeline.errors import PipelineError

REAL_GROUP: Final = "real-consumers"
_REAL_TOPIC: Final = "real-orders"
_START_S: Final = 30
_KILL_AFTER_S: Final = 8.0
_AFTERMATH_S: Final = 6.0


class Truth(NamedTuple):
    """What was done: to which groups, by which clients (names as diagnoses have them; empty: the group's), and when."""

    cause: str
    groups: frozenset[str]
    culprits: frozenset[str]
    start_ms: int
    end_ms: int


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A kshim that writes its history, on a free port. Yields HOST:PORT. Raises PipelineError: it does not start."""
    command = [str(Path(sys.executable).with_name("kshim")), "serve", "--listen=127.0.0.1:0", "--events-topic"]
    command += [f"--data-dir={folder / 'data'}", f"--topic={_REAL_TOPIC}:4"]
    command += ["--config=group.min.session.timeout.ms=500", "--config=group.initial.rebalance.delay.ms=0"]
    # It is landed once, at the end: by then compaction would have erased part of what happened.
    command += ["--config=log.cleaner.enable=false"]
    with (folder / "kshim.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().decode().strip()
        if not address:
            raise PipelineError(f"kshim did not start; its log is {folder / 'kshim.log'}")
        yield address
    finally:
        process.terminate()
        process.wait(_START_S)
        process.stdout.close()


def play(bootstrap: str, folder: Path, *, services: int, incidents: int, seed: int) -> list[Truth]:
    """Run the incidents. Returns the truth, which is in no input of the analysis. Raises PipelineError."""
    truth = folder / "truth.jsonl"
    command = [sys.executable, "-m", "kshim.tools.incidents", f"--bootstrap-server={bootstrap}", f"--truth={truth}"]
    command += [f"--services={services}", f"--incidents={incidents}", f"--seed={seed}"]
    with (folder / "play.log").open("wb") as log:
        playing = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        real = _kill_a_real_consumer(bootstrap)
        code = playing.wait()
    finally:
        if playing.poll() is None:
            playing.kill()
            playing.wait()
    if code != 0:
        raise PipelineError(f"The simulation of incidents exited with code {code}; see {folder / 'play.log'}")
    return [*read_truth(truth), *real]


def read_truth(file: Path) -> list[Truth]:
    """The incidents of a play."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        Truth(row["cause"], frozenset(row["groups"]), _culprits(row["subject"]), row["start_ms"], row["end_ms"])
        for row in rows
        if row["type"] == "incident"
    ]


def _culprits(subject: dict[str, object]) -> frozenset[str]:
    if subject["kind"] == "host":
        return frozenset([str(subject["host"])])
    clients = subject["clients"]
    assert isinstance(clients, list)
    return frozenset(clients)


def _kill_a_real_consumer(bootstrap: str) -> list[Truth]:
    """Two consumers; one is killed and not restarted. Nothing happens if kafka-python is not installed."""
    if find_spec("kafka") is None:
        return []
    module = "kshim_pipeline.demo.consumer"
    running = [
        subprocess.Popen(
            [sys.executable, "-m", module, bootstrap, REAL_GROUP, _REAL_TOPIC, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("real-a", "real-b")
    ]
    try:
        time.sleep(_KILL_AFTER_S)
        killed_ms = time.time_ns() // 1_000_000
        running[1].kill()
        time.sleep(_AFTERMATH_S)
        running[0].terminate()
        running[0].wait(_START_S)
    finally:
        for process in running:
            process.kill()
            process.wait()
    culprit = frozenset(["real-b"])
    return [Truth("killed", frozenset([REAL_GROUP]), culprit, killed_ms, killed_ms + int(_AFTERMATH_S * 1_000))]
