"""compose.yaml and the Dockerfile it builds."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from typing import Any

import compose_spec
import pytest
import yaml

from kshim.cli.options import ServeOptions, parse_command
from tests.repository.checkout import ROOT

COMPOSE = ROOT / "compose.yaml"
CLIENTS = ["producer", "consumer-1", "consumer-2"]


@pytest.fixture
def compose() -> dict[str, Any]:
    """The file with its anchors and merges resolved."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


@pytest.fixture
def dockerfile() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile with the rest of its line, continuations joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.strip().partition(" ") for line in lines)]


def test_it_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    parsed = compose_spec.PyCompose.from_json(json.dumps(compose))
    assert sorted(parsed.service_names()) == sorted(["kshim", *CLIENTS])


@pytest.mark.parametrize("mistake", [("depends_on:", "depend_on:"), ("service_healthy", "healthy"), ("true", "maybe")])
def test_the_specification_refuses_mistakes(mistake: tuple[str, str]) -> None:
    text = COMPOSE.read_text()
    wrong = yaml.safe_load(text.replace(*mistake))
    assert wrong != yaml.safe_load(text)
    with pytest.raises(ValueError, match=r"\w"):
        compose_spec.PyCompose.from_json(json.dumps(wrong))


def test_docker_compose_accepts_it() -> None:
    if shutil.which("docker") is None:
        pytest.skip("the docker client is not installed")
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True, check=False)
    if plugin.returncode != 0:
        pytest.skip("the docker client has no compose plugin")
    command = ["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_kshim_advertises_the_name_that_the_network_knows_it_by(compose: dict[str, Any]) -> None:
    options = parse_command(compose["services"]["kshim"]["command"], {})
    assert isinstance(options, ServeOptions)
    assert options.listen is not None
    assert tuple(options.listen) == ("0.0.0.0", 9092)
    assert options.advertised is not None
    assert tuple(options.advertised) == ("kshim", 9092)


def test_the_data_directory_is_on_a_volume(compose: dict[str, Any]) -> None:
    kshim = compose["services"]["kshim"]
    options = parse_command(kshim["command"], {})
    assert isinstance(options, ServeOptions)
    assert str(options.data_dir) == "/data"
    assert kshim["volumes"] == ["kshim-data:/data"]
    assert "kshim-data" in compose["volumes"]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_wait_until_kshim_is_healthy_and_use_its_advertised_name(compose: dict[str, Any], client: str) -> None:
    service = compose["services"][client]
    assert service["depends_on"] == {"kshim": {"condition": "service_healthy"}}
    assert service["image"] == compose["services"]["kshim"]["image"], "one image is built for all"
    assert "build" not in service
    assert "kshim:9092" in shlex.split(" ".join(service["command"]))


def test_the_consumers_share_a_group_and_the_producers_topic(compose: dict[str, Any]) -> None:
    consumers = [compose["services"][name]["command"] for name in ("consumer-1", "consumer-2")]
    assert consumers[0] == consumers[1]
    assert consumers[0][-4:] == ["--topic", "orders", "--group", "billing"]
    assert "--topic orders" in compose["services"]["producer"]["command"][0]
    assert "--topic=orders:4" in compose["services"]["kshim"]["command"]


def test_the_producers_script_is_shell(compose: dict[str, Any]) -> None:
    (script,) = compose["services"]["producer"]["command"]
    assert re.search(r"(?<!\$)\$(?!\$)", script) is None, "compose would take a single $ for a variable of its own"
    done = subprocess.run(["sh", "-n", "-c", script.replace("$$", "$")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_runs_without_root(dockerfile: list[tuple[str, str]]) -> None:
    instructions = [name for name, _ in dockerfile]
    assert ("USER", "kshim") in dockerfile
    assert instructions.index("USER") > instructions.index("RUN"), "nothing is installed after the change of user"


def test_the_image_is_a_slim_python_that_kshim_supports(dockerfile: list[tuple[str, str]]) -> None:
    name, base = dockerfile[0]
    match = re.fullmatch(r"python:3\.(\d+)-slim", base)
    assert name == "FROM"
    assert match is not None
    assert int(match[1]) >= 11


def test_the_image_copies_what_is_there_and_not_ignored(dockerfile: list[tuple[str, str]]) -> None:
    sources = [source for name, rest in dockerfile if name == "COPY" for source in rest.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored


def test_the_image_declares_its_port_health_and_command(dockerfile: list[tuple[str, str]]) -> None:
    rest = dict(dockerfile)
    assert rest["EXPOSE"] == "9092"
    assert json.loads(rest["ENTRYPOINT"]) == ["kshim"]
    assert isinstance(parse_command(json.loads(rest["CMD"]), {}), ServeOptions)
    python, *code = json.loads(rest["HEALTHCHECK"].partition("CMD ")[2])
    assert (python, code[0]) == ("python", "-c")
    compile(code[1], "the health check", "exec")
