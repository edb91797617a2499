"""The tutorial's `kshim pipeline` commands, as they stand there, one after another in one folder."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.kafka_python.client import KafkaPython
from integration.spark.commands import tables_in
from integration.support.kshim import KshimProcess
from tests.docs.blocks import DOCS, blocks

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.usefixtures("spark_jars")]

PAGE = DOCS / "tutorials" / "why-did-my-group-rebalance.md"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_S = 600
PARTITIONS = 3


@pytest.fixture
def kshim(tmp_path: Path) -> Iterator[KshimProcess]:
    """With a group `billing` that two consumers were in, one after the other."""
    process = KshimProcess(tmp_path / "kshim", topics={"orders": PARTITIONS})
    process.start()
    client = KafkaPython()
    client.produce(process.bootstrap, "orders", ["one coffee", "two coffees"])
    for _ in range(2):
        member = client.join(process.bootstrap, "billing", ["orders"])
        while len(member.assignment()) < PARTITIONS:
            member.poll(0.1)
        member.close()
    yield process
    process.stop()


def test_the_commands_of_the_tutorial_run_in_their_order(kshim: KshimProcess, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/server.log").write_text("[2026-11-21 10:00:00,123] INFO [KafkaServer id=1] started\n")
    commands = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    said = {}
    for command in commands:
        if command.startswith("kshim pipeline "):
            name = shlex.split(command)[2]
            said[name] = run(command.replace(DEFAULT_BOOTSTRAP, kshim.bootstrap), tmp_path)
    assert list(said) == ["setup", "demo", "land", "analyse", "report", "explain", "budget"]
    assert "checksums match" in said["setup"]
    assert "causes and " in said["demo"]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert said["land"].startswith("Landed into history: ")
    assert (tables_in(tmp_path / "results") / "tables/rebalances").is_dir()
    assert "billing" in (tmp_path / "report.html").read_text()
    assert said["explain"].startswith("Group billing, generation ")
    verdict = json.loads(said["budget"])
    assert [row["group_id"] for row in verdict["groups"]] == ["billing"]
    assert verdict["broken"], "it rebalanced more often, in its few seconds, than six times an hour"


def run(command: str, folder: Path) -> str:
    """stdout; 1 is also an answer: of a demo that was too little right, of a budget that is broken."""
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    allowed = {"demo": (0, 1), "budget": (1,)}.get(arguments[1], (0,))
    assert done.returncode in allowed, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout
