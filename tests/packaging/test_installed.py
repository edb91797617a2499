"""The wheel in an environment that holds nothing else."""

from __future__ import annotations

from email.parser import BytesParser
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.cli.process import Kshim
from tests.packaging.conftest import Built
from tests.packaging.environments import Environment, run
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


def test_it_prints_the_version_that_its_metadata_has(built: Built, installed: Environment) -> None:
    (metadata,) = (content for name, content in files_of(built.wheel).items() if name.endswith(".dist-info/METADATA"))
    version = BytesParser().parsebytes(metadata)["Version"]
    assert run([str(installed.bin / "kshim"), "--version"]) == f"kshim {version}\n"
