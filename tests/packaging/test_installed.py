"""The wheel in an environment that holds nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from email.parser import BytesParser
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.cli.process import Kshim
from tests.packaging.conftest import Built
from tests.packaging.environments import Environment, clean_variables, run
from tests.packaging.test_wheel import files_of

pytestmark = pytest.mark.packaging


def test_it_serves_a_client(installed: Environment, tmp_path: Path) -> None:
    options = ("--listen=127.0.0.1:0", "--topic=orders:2")
    command = (str(installed.bin / "kshim"), "serve")
    with Kshim(tmp_path / "log", *options, environment=installed.variables(), command=command) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        assert admin.list_topics() == ["orders"]
        admin.close()


def test_it_holds_the_scenarios_that_conform_plays(installed: Environment, tmp_path: Path) -> None:
    kshim = str(installed.bin / "kshim")
    command = (kshim, "serve")
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", environment=installed.variables(), command=command) as broker:
        report = run([kshim, "conform", "--bootstrap-server", broker.bootstrap, "--suite", "versions"])
    assert " 0 failed" in report


CONSUMER = """\
from kshim.testing import Kshim
from kshim_protocol.codec import codec
from kshim_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(brokers: Kshim, group_id: str) -> bytes:
    request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    return codec(HeartbeatRequest, 4).build(request) + brokers.bootstrap_servers.encode()


def error_of(body: bytes) -> int:
    response, _ = codec(HeartbeatResponse, 4).parse(body)
    return response.error_code


with Kshim(topics={"orders": 2}) as brokers:
    heartbeat(brokers, "g")
    brokers.create_topic("clicks", partitions=1)
"""


MISTAKES = {
    "brokers.create_topic(b'clicks')": "arg-type",
    "HeartbeatRequest(group_id=1, generation_id=1, member_id='m')": "arg-type",
    "HeartbeatRequest(group='g', generation_id=1, member_id='m')": "call-arg",
    "error_of(b'').upper()": "attr-defined",
}


def test_a_program_that_uses_it_is_checked_by_its_types(installed: Environment, tmp_path: Path) -> None:
    program = tmp_path / "consumer.py"
    program.write_text("\n".join([CONSUMER, *MISTAKES]))
    options = ["--strict", "--config-file=", "--python-executable", installed.python]
    command = [sys.executable, "-m", "mypy", *options, str(program)]
    done = subprocess.run(command, cwd=tmp_path, env=clean_variables(), capture_output=True, text=True, check=False)
    found = re.findall(r":(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    first = CONSUMER.count("\n") + 2
    assert found == [(str(line), error) for line, error in enumerate(MISTAKES.values(), first)], done.stdout


def test_it_prints_the_version_that_its_metadata_has(built: Built, installed: Environment) -> None:
    (metadata,) = (content for name, content in files_of(built.wheel).items() if name.endswith(".dist-info/METADATA"))
    version = BytesParser().parsebytes(metadata)["Version"]
    assert run([str(installed.bin / "kshim"), "--version"]) == f"kshim {version}\n"
