"""The benchmarks of groups, run small: what they measure happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows_of(name: str, *arguments: str) -> list[list[str]]:
    """The table that a benchmark prints, without its head."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--rounds", "1", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()[1:]]


def test_members_of_a_group_share_its_partitions_when_others_come_and_go() -> None:
    epochs = {row[1]: int(row[-2]) for row in rows_of("consumer_groups", "--members", "10")}
    assert epochs == {"join": 10, "change": 2, "leave": 10}


def test_heartbeats_of_both_protocols_are_answered() -> None:
    assert [row[1:3] for row in rows_of("heartbeats", "--requests", "64", "--warm-up", "64")] == [
        [protocol, connections] for protocol in ("classic", "consumer") for connections in ("1", "64")
    ]


def test_what_a_request_costs_and_what_a_thing_takes_is_measured_at_each_size() -> None:
    rows = rows_of("scale", "--largest", "2", "--measures", "heartbeat-connections", "join-members", "connection")
    assert [row[0] for row in rows] == ["heartbeat-connections", "join-members", "connection"]
    assert [row[1] for row in rows[:2]] == ["1:", "2:"]
    assert all(float(row[2]) > 0 for row in rows[:2])
    assert 0 < int(rows[2][1].replace(",", "")) < 100_000
