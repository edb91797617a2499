"""`uvx kshim` and `pipx run kshim`, from an index on this machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.cli.process import Kshim
from tests.packaging.conftest import Built
from tests.packaging.environments import UV, clean_variables, run

pytestmark = pytest.mark.packaging

PIPX = str(Path(sys.executable).with_name("pipx"))
RUNNERS: dict[str, Callable[[str], list[str]]] = {
    "uvx": lambda index: [UV, "tool", "run", "--default-index", index, "kshim"],
    "pipx run": lambda index: [PIPX, "run", "--quiet", "--backend", "uv", "--index-url", index, "kshim"],
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_runner_needs_nothing_but_the_name(runner: str, built: Built, index: str, tmp_path: Path) -> None:
    command = RUNNERS[runner](index)
    variables = clean_variables(
        UV_CACHE_DIR=str(tmp_path / "cache"), PIPX_HOME=str(tmp_path / "pipx"), UV_PYTHON=sys.executable
    )
    version = built.wheel.name.split("-")[1]
    assert run([*command, "--version"], variables) == f"kshim {version}\n"
    serve = (*command, "serve")
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", environment=variables, command=serve) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        assert admin.list_topics() == []
        admin.close()
        assert broker.end(signal.SIGTERM) == (0, "")
