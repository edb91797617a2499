"""A copy made in transactions holds each record once, whoever is killed while it is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from integration.exactly_once.run import faults


@pytest.mark.parametrize(
    ("clients", "level", "kills", "broker_kills"),
    [
        ("librdkafka", 2, 4, 2),
        pytest.param("java,librdkafka", 2, 50, 20, marks=[pytest.mark.long, pytest.mark.timeout(1_200)]),
        pytest.param("java,librdkafka", 0, 50, 20, marks=[pytest.mark.long, pytest.mark.timeout(1_200)]),
    ],
)
def test_each_record_is_copied_once_although_jobs_and_brokers_are_killed(
    clients: str, level: int, kills: int, broker_kills: int
) -> None:
    command = [sys.executable, "-m", "integration.exactly_once.run", f"--clients={clients}"]
    command += [f"--level={level}", f"--kills={kills}", f"--broker-kills={broker_kills}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    print(ended.stdout)


def test_the_check_sees_what_is_doubled_missing_or_out_of_order() -> None:
    written = [[b"0", b"2"], [b"1", b"3"]]

    assert faults(written, [[b"copied:0", b"copied:2"], [b"copied:1", b"copied:3"]]) == []
    assert "1 doubled" in faults(written, [[b"copied:0", b"copied:0", b"copied:2"], [b"copied:1", b"copied:3"]])[0]
    assert "1 missing" in faults(written, [[b"copied:0", b"copied:2"], [b"copied:3"]])[0]
    assert "out of order" in faults(written, [[b"copied:2", b"copied:0"], [b"copied:1", b"copied:3"]])[0]
