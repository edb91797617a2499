"""The processes of the demo: the broker, incidents on simulated consumers of both protocols, and two real ones, one of them killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kshim_pipeline.demo.epoch_group import EPOCH_PARTITIONS, EPOCH_SESSION_MS, EPOCH_TOPIC, play_epochs
from kshim_pipeline.demo.incidents import PARTITIONS, Truth, group_ids, topic_of
from kshim_pipeline.demo.incidents import play as simulate
from kshim_pipeline.errors import PipelineError

REAL_GROUP: Final = "real-consumers"
_REAL_TOPIC: Final = "real-orders"
_START_S: Final = 30
_ONE_BY_ONE_S: Final = 2.0
_KILL_AFTER_S: Final = 8.0
_AFTERMATH_S: Final = 6.0


@contextmanager
def broker(folder: Path, *, groups: int) -> Iterator[str]:
    """A kshim that writes its history, with the topics of so many groups, on a free port. Yields HOST:PORT. Raises PipelineError: it does not start."""
    command = [str(Path(sys.executable).with_name("kshim")), "serve", "--listen=127.0.0.1:0", "--events-topic"]
    command += [f"--data-dir={folder / 'data'}", f"--topic={_REAL_TOPIC}:4"]
    command += ["--config=group.min.session.timeout.ms=500", "--config=group.initial.rebalance.delay.ms=0"]
    command += [f"--topic={topic_of(group_id)}:{PARTITIONS}" for group_id in group_ids(groups)]
    command += [f"--topic={EPOCH_TOPIC}:{EPOCH_PARTITIONS}"]
    for key, value in (("session.timeout.ms", EPOCH_SESSION_MS), ("heartbeat.interval.ms", 500)):
        command += [f"--config=group.consumer.{key}={value}", f"--config=group.consumer.min.{key}={value}"]
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


async def play(bootstrap: str, *, groups: int, incidents: int, seed: int) -> list[Truth]:
    """Run the incidents. Returns the truth, which is in no input of the analysis. Raises PipelineError."""
    simulated, of_epochs, real = await asyncio.gather(
        simulate(bootstrap, groups, incidents, seed), play_epochs(bootstrap), _kill_a_real_consumer(bootstrap)
    )
    return [*simulated, *of_epochs, *real]


async def _kill_a_real_consumer(bootstrap: str) -> list[Truth]:
    """Two consumers; one is killed and not restarted. Nothing happens if kafka-python is not installed."""
    if find_spec("kafka") is None:
        return []
    start_ms = time.time_ns() // 1_000_000
    running = [_start_real_consumer(bootstrap, "real-a")]
    try:
        await asyncio.sleep(_ONE_BY_ONE_S)
        running.append(_start_real_consumer(bootstrap, "real-b"))
        await asyncio.sleep(_KILL_AFTER_S)
        killed_ms = time.time_ns() // 1_000_000
        running[1].kill()
        await asyncio.sleep(_AFTERMATH_S)
        running[0].terminate()
        await asyncio.to_thread(running[0].wait, _START_S)
    finally:
        for process in running:
            process.kill()
            process.wait()
    group, culprit = frozenset([REAL_GROUP]), frozenset(["real-b"])
    started = Truth("one_by_one_start", group, frozenset(), start_ms, killed_ms - 1)
    return [started, Truth("killed", group, culprit, killed_ms, killed_ms + int(_AFTERMATH_S * 1_000))]


def _start_real_consumer(bootstrap: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kshim_pipeline.demo.consumer", bootstrap, REAL_GROUP, _REAL_TOPIC, name]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
