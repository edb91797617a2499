"""The image, as far as it can be tried without an engine: its instructions, run in an environment of their own."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.cli.process import Kshim
from tests.packaging import dockerfile
from tests.packaging.conftest import Image
from tests.packaging.environments import run

pytestmark = pytest.mark.packaging


def variables(image: Image, data_dir: Path, **more: str) -> dict[str, str]:
    """Those of a container, but on loopback with a free port, and with a folder instead of the volume."""
    own = {"KSHIM_LISTEN": "127.0.0.1:0", "KSHIM_ADVERTISED": "127.0.0.1:0", "KSHIM_DATA_DIR": str(data_dir)}
    return image.environment.variables(**dockerfile.environment() | own | more)


def health(image: Image, **more: str) -> subprocess.CompletedProcess[str]:
    """The health check of a container whose variables these are."""
    environment = image.environment.variables(**dockerfile.environment() | more)
    return subprocess.run(dockerfile.health_command(), env=environment, capture_output=True, text=True, check=False)


def test_a_container_serves_and_is_healthy_until_it_is_stopped(image: Image, tmp_path: Path) -> None:
    environment = variables(image, tmp_path / "data", KSHIM_TOPICS="orders:2", KSHIM_CONFIG_GROUP_MAX_SIZE="7")
    with Kshim(tmp_path / "log", environment=environment, command=tuple(dockerfile.command())) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        assert admin.list_topics() == ["orders"]
        admin.close()
        assert any((tmp_path / "data").iterdir())
        assert health(image, KSHIM_LISTEN=broker.bootstrap).returncode == 0
        assert health(image, KSHIM_CONFIG_LISTENERS=f"PLAINTEXT://{broker.bootstrap}").returncode == 0
        assert broker.end(signal.SIGTERM) == (0, "")
        stopped = health(image, KSHIM_LISTEN=broker.bootstrap)
    assert stopped.returncode == 1
    assert f"{broker.bootstrap} is not healthy: cannot connect" in stopped.stderr


def test_the_volume_is_the_data_directory_and_belongs_to_the_user(image: Image) -> None:
    data_dir = dockerfile.environment()["KSHIM_DATA_DIR"]
    assert dockerfile.only("VOLUME") == dockerfile.only("WORKDIR") == data_dir
    user = dockerfile.only("USER")
    setup = dockerfile.only("RUN")
    assert user == "kshim"
    assert re.search(rf"useradd .* {user}\b", setup)
    assert f"install -d -o {user} -g {user} {data_dir}" in setup


def test_nothing_is_installed_after_the_change_of_user() -> None:
    names = [name for name, _ in dockerfile.instructions()]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("COPY", "RUN"))


def test_its_python_is_one_that_the_project_supports(image: Image) -> None:
    match = re.fullmatch(r"python:3\.(\d+)-slim", dockerfile.only("FROM"))
    assert match is not None
    assert int(match[1]) in range(11, 15)


@pytest.mark.parametrize("module", ["kafka.producer", "kafka.consumer", "kafka.admin"])
def test_the_console_clients_are_there(image: Image, module: str) -> None:
    assert "--bootstrap-servers" in run([image.environment.python, "-m", module, "--help"])


def test_compressed_batches_can_be_read(image: Image) -> None:
    assert run([image.environment.python, "-c", "import cramjam; print('there')"]) == "there\n"
