"""`kshim ctl`: what it asks, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshim.tools.ctl.client import ControlError, Unreachable
from kshim.tools.ctl.commands import COMMANDS
from kshim.tools.ctl.run import UsageError, run_ctl
from tests.cli.process import COMMAND, run
from tests.control.members import Member
from tests.control.service import Service, a_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("ctl"), "--brokers=2", "--topic=orders:2") as service:
        yield service


def ctl(service: Service, *arguments: str) -> list[str]:
    """The lines that a command prints."""
    shown: list[str] = []
    run_ctl(["--url", service.url, *arguments], {}, lambda path: Path(path).read_text(), shown.append)
    return shown


def columns(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_every_command_asks_for_something_that_the_interface_describes(service: Service) -> None:
    described = service.get("/openapi.json")["paths"]
    operations = {(method.upper(), path) for path in described for method in described[path]}
    known = {(command.method, command.path) for command in COMMANDS}
    assert known - operations == set()
    assert operations - known == {("GET", "/openapi.json"), ("GET", "/v1/history/stream")}
    for command in COMMANDS:
        operation = described[command.path][command.method.lower()]
        parameters = {parameter["name"] for parameter in operation["parameters"]}
        asked = {argument.field for argument in command.arguments if argument.place in ("path", "query")}
        assert asked <= parameters, command.words


def test_topics_are_made_and_listed(service: Service) -> None:
    made = ctl(service, "topic", "create", "made", "--partitions", "2", "--config", "retention.ms=1000")
    assert columns(made)[0] == ["PARTITION", "LEADER", "START_OFFSET", "END_OFFSET"]
    assert len(made) == 3
    assert ["made", "2", "no"] in columns(ctl(service, "topic", "list"))
    assert ctl(service, "topic", "delete", "made") == []
    with pytest.raises(ControlError, match="topic made does not exist"):
        ctl(service, "topic", "describe", "made")


def test_records_are_written_and_shown(service: Service) -> None:
    ctl(service, "topic", "produce", "orders", "hello", "--key", "k", "--partition", "1")
    shown = json.loads("\n".join(ctl(service, "topic", "records", "orders", "--partition", "1", "--json")))
    assert [(record["key"], record["value"]) for record in shown["records"]] == [("k", "hello")]


def test_a_group_is_shown_waited_for_and_disturbed(service: Service) -> None:
    ctl(service, "group", "move", "shown", "1")
    with Member(service.bootstrap, "shown").join() as member:
        assert ["shown", "Stable", "1", "range", "1"] in columns(ctl(service, "group", "list"))
        assert ctl(service, "group", "wait", "shown", "--state", "Stable", "--members", "1")[1].startswith(
            member.member_id
        )
        ctl(service, "group", "rebalance", "shown", "--reason", "why not")
        assert "admin" in "\n".join(ctl(service, "group", "rebalances", "shown"))
        assert ctl(service, "group", "expel", "shown", member.member_id) == [f"member_id: {member.member_id}"]
        assert "Rebalance 1:" in "\n".join(ctl(service, "group", "explain", "shown"))
        with pytest.raises(ControlError, match="group shown is"):
            ctl(service, "group", "wait", "shown", "--members", "5", "--timeout", "0.05")
    assert any("member_joined" in line for line in ctl(service, "history", "--group", "shown"))


def test_a_fault_is_set_and_cancelled(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "rule.json"
    file.write_text('{"on": "Heartbeat", "do": "hang", "when": "once"}')
    fault = json.loads("\n".join(ctl(service, "--json", "fault", "set", f"@{file}")))["fault_id"]
    assert [line[0] for line in columns(ctl(service, "fault", "list"))] == ["FAULT_ID", fault]
    with pytest.raises(ControlError, match="never fired"):
        ctl(service, "fault", "assert-used")
    ctl(service, "fault", "cancel", fault)
    ctl(service, "fault", "clear")
    assert ctl(service, "fault", "assert-used") == []


def test_the_clock_is_advanced_and_brokers_are_stopped(service: Service) -> None:
    assert columns(ctl(service, "clock", "advance", "1.5"))[0] == ["AT", "KIND", "KEY"]
    with pytest.raises(ControlError, match="no group has a member 'ann' to be kept alive"):
        ctl(service, "clock", "advance", "1.5", "--keep-alive", "ann", "--keep-alive", "ben*")
    assert columns(ctl(service, "node", "stop", "2"))[2][3] == "no"
    assert columns(ctl(service, "node", "start", "2"))[2][3] == "yes"


@pytest.mark.parametrize(
    "arguments",
    [
        ["group"],
        ["group", "shrink"],
        ["topic", "create"],
        ["topic", "create", "t", "--config", "key"],
        ["fault", "set", "[]"],
        ["fault", "set", "@/no/such/file"],
        ["clock", "advance", "soon"],
        ["health", "--loud"],
    ],
)
def test_a_mistake_is_one_sentence(service: Service, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=r"`kshim ctl.* --help` lists the options"):
        ctl(service, *arguments)


def test_the_exit_code_says_how_it_ended(service: Service, tmp_path: Path) -> None:
    def ended(*arguments: str) -> tuple[int, str, int]:
        done = run("ctl", *arguments)
        return done.returncode, done.stdout, done.stderr.count("\n")

    assert ended(f"--url={service.url}", "health") == (0, "status: ok\n", 0)
    assert ended(f"--url={service.url}", "group", "describe", "none") == (1, "", 1)
    assert ended(f"--url={service.url}", "group") == (2, "", 1)
    assert ended(f"--url={service.url}", f"--token-file={tmp_path}/none", "health") == (2, "", 1)
    assert ended("--url=http://127.0.0.1:1", "health") == (3, "", 1)
    assert ended("--url=nonsense", "health") == (2, "", 1)
    assert ended("--url=http://[::1", "health") == (2, "", 1)


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_address_is_a_url_or_a_host_and_port_before_or_after_the_command(service: Service, place: str) -> None:
    for address in (service.url, service.address, f"{service.url}/"):
        options = ["--url", address]
        for environment, given in ({}, options), ({"KSHIM_CONTROL": address}, []):
            shown: list[str] = []
            arguments = [*given, "topic", "list"] if place == "before" else ["topic", "list", *given]
            run_ctl(arguments, environment, str, shown.append)
            assert any(line.startswith("orders") for line in shown)


@pytest.mark.parametrize(
    "address", ["nonsense", "host:port", "ftp://host:1", "http://", "127.0.0.1:0", "http://a b:80"]
)
def test_what_is_no_address_is_refused_with_its_source(address: str) -> None:
    with pytest.raises(UsageError, match=f"--url: '{re.escape(address)}' is neither a URL such as http://.* nor HOST"):
        run_ctl(["health", "--url", address], {}, str, print)
    with pytest.raises(UsageError, match=r"^KSHIM_CONTROL: "):
        run_ctl(["health"], {"KSHIM_CONTROL": address}, str, print)


def test_the_port_of_kafka_is_recognized(service: Service) -> None:
    with pytest.raises(Unreachable, match=r"no HTTP is spoken there. Is this the Kafka port\?"):
        run_ctl(["health", "--url", service.bootstrap.partition(",")[0]], {}, str, print)
    with pytest.raises(Unreachable, match=r"nothing listens there. Does `kshim serve` run with --control\?"):
        run_ctl(["health", "--url", "127.0.0.1:1"], {}, str, print)


def test_an_unknown_option_names_the_help_of_its_command(service: Service) -> None:
    with pytest.raises(UsageError, match=r"--loud; `kshim ctl group describe --help` lists the options"):
        ctl(service, "group", "describe", "g", "--loud")


def test_the_examples_in_the_help_of_fault_set_work(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ctl(service, "fault", "set", "--help")
    examples = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("    kshim ctl")]
    assert len(examples) > 2
    monkeypatch.chdir(tmp_path)
    Path("rule.json").write_text('{"on": "Heartbeat", "do": "hang", "when": "once"}')
    try:
        for _, _, *arguments in examples:
            assert ctl(service, *arguments)
    finally:
        ctl(service, "fault", "clear")


def test_address_and_token_may_come_from_the_environment(tmp_path: Path) -> None:
    with a_service(tmp_path, environment={**os.environ, "KSHIM_CONTROL_TOKEN": "t0ken"}) as service:
        environment = {**os.environ, "KSHIM_CONTROL": service.address}
        refused = subprocess.run(
            [COMMAND, "ctl", "ready"], env=environment, capture_output=True, text=True, check=False
        )
        assert refused.returncode == 1
        assert "Authorization: Bearer" in refused.stderr
        environment["KSHIM_CONTROL_TOKEN"] = "t0ken"
        ready = subprocess.run([COMMAND, "ctl", "ready"], env=environment, capture_output=True, text=True, check=False)
        assert f"bootstrap_servers: {service.bootstrap}" in ready.stdout


def test_the_history_is_followed(service: Service) -> None:
    process = subprocess.Popen(
        [COMMAND, "ctl", "--url", service.url, "history", "--group", "followed", "--after", "0", "--follow"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ctl(service, "group", "move", "followed", "1")
        with Member(service.bootstrap, "followed") as member:
            member.join()
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["type"] == "member_joined"
    finally:
        process.kill()
        process.communicate()
