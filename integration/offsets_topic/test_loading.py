"""What kshim says of records it does not know when it loads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from integration.offsets_topic.scene import Scene
from integration.support.kshim import KshimProcess
from kshim_protocol.internal.records import build_offset_commit_key
from kshim_protocol.records.batch import build_key_value_batch, parse_batch_header


@pytest.fixture
def stopped(tmp_path: Path) -> KshimProcess:
    """A kshim with one commit, at offset 0 of its only partition of the offsets topic."""
    process = KshimProcess(tmp_path, durable=True, config={"offsets.topic.num.partitions": "1"})
    process.start()
    with Scene(process.bootstrap, "unknown", "orders") as scene:
        scene.commit(scene.named("group"), 0, 42)
    process.stop()
    return process


def append(process: KshimProcess, *pairs: tuple[bytes, bytes | None]) -> int:
    """Write a batch to the end of the log, as a newer broker might have; returns its first offset."""
    (path,) = (process.data / "__consumer_offsets-0").glob("*.log")
    data = path.read_bytes()
    last = parse_batch_header(data).last_offset
    path.write_bytes(data + build_key_value_batch(pairs, 1_000, base_offset=last + 1))
    return last + 1


def test_unknown_types_are_skipped_with_a_warning_that_names_them(stopped: KshimProcess) -> None:
    append(stopped, (b"\0\x12\0\1g", b"\0\0\0\0\0\1\0"), (b"\0\x63?", b"?"), (b"\0\x63?", None))
    stopped.start()
    with Scene(stopped.bootstrap, "unknown", "orders") as scene:
        group = scene.named("group")
        assert scene.answers()["offsets"][group] == {("orders", 0): (42, -1, "")}
    stopped.stop()
    log = stopped.log.read_text()
    assert "partition=0] Skipped 1 records of key type 18, which is unknown" in log
    assert "partition=0] Skipped 2 records of key type 99, which is unknown" in log


def test_an_unknown_version_of_a_value_ends_the_start_with_a_sentence(stopped: KshimProcess) -> None:
    offset = append(stopped, (build_offset_commit_key("g", "orders", 0), b"\0\5whatever"))
    done = subprocess.run(
        [Path(sys.executable).with_name("kshim"), "serve", "--listen=127.0.0.1:0", f"--data-dir={stopped.data}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"kshim: __consumer_offsets-0 holds a record that cannot be read: offset {offset}: OffsetCommitValue v5: "
        "version at byte 0: unknown version 5"
    )
