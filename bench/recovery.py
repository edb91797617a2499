"""What reading an offsets partition back costs: seconds of CPU from nothing to a shard that may serve.

    python -m bench.recovery [--records 1000000] [--keys 50000] [--rounds 5]

A log of committed offsets, one record a batch, none compacted, is written once. Then in every round, in turn and each in
a process of its own, from a warm file cache: `closed` reads it as after a clean end, `killed` without any index as after
a kill with --fsync never, so that opening it checks everything. Floors, in the same rounds: reading the bytes, and
looking at every batch's header and CRC and nothing else. Printed: median [lowest-highest]; `slice` is the longest time
that replay kept the loop.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kshim.coordinator.groups.config import GroupConfig
from kshim.coordinator.groups.coordinator import GroupCoordinator
from kshim.coordinator.step import Now
from kshim.storage.file_log import FileLog
from kshim_protocol.internal.records import build_offset_commit_key, build_offset_commit_value
from kshim_protocol.records.batch import build_key_value_batch
from kshim_protocol.records.crc import crc32c

WALL_MS = 1_700_000_000_000
PARTITIONS_A_GROUP = 50


def write_log(folder: Path, record_count: int, key_count: int) -> None:
    """Commits of all keys in turn, again and again."""
    log = FileLog(str(folder), segment_bytes=100 << 20)
    for i in range(record_count):
        key = i % key_count
        group, partition = divmod(key, PARTITIONS_A_GROUP)
        pair = (
            build_offset_commit_key(f"group-{group}", "orders", partition),
            build_offset_commit_value(offset=i, leader_epoch=0, metadata="", commit_timestamp_ms=WALL_MS + i),
        )
        log.append(build_key_value_batch([pair], WALL_MS + i))
    log.close()


def without_index(folder: Path, other: Path) -> None:
    """The same segments once more, as a process leaves them that is killed before it has synced anything."""
    other.mkdir()
    for path in folder.glob("*.log"):
        os.link(path, other / path.name)


class NoTopics:
    """The coordinator asks nothing of topics while it loads."""

    version = 0

    def partition_count(self, name: str) -> int | None:
        return None

    def topic_id(self, name: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None


def recovered(folder: Path, key_count: int, *, was_closed: bool) -> dict[str, float]:
    """CPU seconds of opening the log, of reading it and keeping what is live, of decoding that."""
    coordinator = GroupCoordinator(GroupConfig(), topics=NoTopics(), new_id=str)
    coordinator.begin_load(0)
    longest = 0.0
    begun = time.process_time()
    log = FileLog(str(folder), segment_bytes=100 << 20, was_closed=was_closed)
    log.check_tails()
    opened = time.process_time()
    replay = coordinator.begin_replay(0)
    for run in log.runs():
        slice_begun = time.process_time()
        for _ in replay.feed(run):
            pass
        longest = max(longest, time.process_time() - slice_begun)
    kept = time.process_time()
    for _ in replay.finish():
        pass
    coordinator.finish_load(0, Now(0, WALL_MS))
    done = time.process_time()
    coordinator.config.offsets_topic_num_partitions = 1
    shard = coordinator.shard_of("group-0")
    assert shard is not None
    assert sum(shard.offsets.count(group_id) for group_id in shard.offsets.group_ids()) == key_count
    return {"all": done - begun, "open": opened - begun, "keep": kept - opened, "decode": done - kept, "slice": longest}


def read_only(folder: Path, key_count: int) -> dict[str, float]:
    """The bytes into memory, a MiB at a time."""
    begun = time.process_time()
    for path in sorted(folder.glob("*.log")):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return {"all": time.process_time() - begun}


def checked_only(folder: Path, key_count: int) -> dict[str, float]:
    """The shortest loop that knows every batch to be whole."""
    begun = time.process_time()
    unpack = struct.Struct(">8xi5xI").unpack_from
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        view = memoryview(data)
        at = 0
        while at < len(data):
            length, crc = unpack(data, at)
            end = at + 12 + length
            assert crc32c(view[at + 21 : end]) == crc
            at = end
    return {"all": time.process_time() - begun}


def in_a_process(case: Callable[..., dict[str, float]], *arguments: object, **options: object) -> dict[str, float]:
    """What `case` returns in a fresh process, which ends without closing anything."""
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def run() -> None:
        sending.send(case(*arguments, **options))
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    result: dict[str, float] = receiving.recv()
    process.join()
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    parent = Path(tempfile.mkdtemp())
    try:
        closed, killed = parent / "t-0", parent / "t-1"
        write_log(closed, options.records, options.keys)
        without_index(closed, killed)
        results: dict[str, list[dict[str, float]]] = {}
        for _ in range(options.rounds):
            for name, case, folder, more in (
                ("floor: read", read_only, closed, {}),
                ("floor: read and check", checked_only, closed, {}),
                ("closed", recovered, closed, {"was_closed": True}),
                ("killed", recovered, killed, {"was_closed": False}),
            ):
                results.setdefault(name, []).append(in_a_process(case, folder, options.keys, **more))
        size_bytes = sum(path.stat().st_size for path in closed.glob("*.log"))
        print(f"{options.records} records, {options.keys} keys, {size_bytes / 1e6:.0f} MB; CPU s")
        for name, rounds in results.items():
            print(
                f"{name:24}" + "  ".join(f"{part} {_spread([found[part] for found in rounds])}" for part in rounds[0])
            )
    finally:
        shutil.rmtree(parent)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} [{min(values):.3f}-{max(values):.3f}]"


if __name__ == "__main__":
    main()
