"""compose.yaml: what it says, and what its services do with what is in the image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kshim.cli.addresses import Address
from kshim.cli.options import ServeOptions, parse_command
from tests.cli.process import Kshim
from tests.packaging import dockerfile
from tests.packaging.conftest import Image
from tests.repository.checkout import ROOT

COMPOSE = ROOT / "compose.yaml"
pytestmark = pytest.mark.packaging

CLIENTS = ["producer", "consumer-1", "consumer-2"]


@pytest.fixture
def compose() -> dict[str, Any]:
    """The file with its anchors and merges resolved."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def test_docker_compose_accepts_it() -> None:
    if shutil.which("docker") is None:
        pytest.skip("the docker client is not installed")
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True, check=False)
    if plugin.returncode != 0:
        pytest.skip("the docker client has no compose plugin")
    command = ["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_kshim_is_advertised_by_the_name_of_its_service_and_keeps_its_data_on_a_volume(compose: dict[str, Any]) -> None:
    kshim = compose["services"]["kshim"]
    options = parse_command(dockerfile.command()[1:], dockerfile.environment() | kshim["environment"])
    assert isinstance(options, ServeOptions)
    assert options.listen == Address("0.0.0.0", 9092)
    assert options.advertised == Address("kshim", 9092)
    assert kshim["volumes"] == [f"kshim-data:{options.data_dir}"]
    assert "kshim-data" in compose["volumes"]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_wait_until_kshim_is_healthy_and_use_its_advertised_name(compose: dict[str, Any], client: str) -> None:
    service = compose["services"][client]
    assert service["depends_on"] == {"kshim": {"condition": "service_healthy"}}
    assert service["image"] == compose["services"]["kshim"]["image"], "one image is built for all"
    assert "build" not in service
    assert "kshim:9092" in shlex.split(" ".join(service["command"]))


def test_its_services_run_on_what_the_image_holds(compose: dict[str, Any], image: Image, tmp_path: Path) -> None:
    services = compose["services"]
    local = {"KSHIM_LISTEN": "127.0.0.1:0", "KSHIM_ADVERTISED": "127.0.0.1:0", "KSHIM_DATA_DIR": str(tmp_path / "data")}
    variables = image.environment.variables(**dockerfile.environment() | services["kshim"]["environment"] | local)
    command = tuple(dockerfile.command())
    with Kshim(tmp_path / "log", environment=variables, command=command) as broker, ExitStack() as clients:
        running = {name: clients.enter_context(client(services[name], broker, image)) for name in CLIENTS}
        for name in ("consumer-1", "consumer-2"):
            stdout = running[name].stdout
            assert stdout is not None
            assert re.fullmatch(r"order \d+\n", stdout.readline())


@contextmanager
def client(service: dict[str, Any], broker: Kshim, image: Image) -> Iterator[subprocess.Popen[str]]:
    """A service as a process, and a group of its own, for a shell has children; killed afterwards."""
    words = [*service["entrypoint"], *service["command"]]
    command = [word.replace("kshim:9092", broker.bootstrap).replace("$$", "$") for word in words]
    process = subprocess.Popen(
        command, env=image.environment.variables(), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
