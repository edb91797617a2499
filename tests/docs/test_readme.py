"""What the README says is so: its commands run, its snippets print what stands beside them, its tables are complete."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kshim.cli import exit_codes
from kshim.tools.client import Client
from kshim_pipeline.cli import COMMANDS
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.cli.process import TIMEOUT_S, Kshim, run
from tests.docs.blocks import README, blocks

TEXT = README.read_text()
ROOT = README.parent
RUN = ("serve", "dump-offsets", "import", "pipeline")
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CERTIFICATE = "server.pem"


def commands() -> list[str]:
    return [line for block in blocks(README, "sh") for line in block.splitlines() if line]


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("make ")])
def test_a_make_target_exists(command: str) -> None:
    _, target = command.split()
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in commands() if " pip install " in command])
def test_pip_takes_the_project(command: str) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("without hatchling pip would have to fetch it")
    arguments = shlex.split(command)[1:]
    # Nothing is fetched and nothing changed: what is missing to the real thing is the network.
    dry = [*arguments, "--dry-run", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [sys.executable, *dry], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr


def kshim_commands(name: str) -> list[str]:
    return [command for command in commands() if command.startswith(f"kshim {name} ")]


@pytest.mark.parametrize("command", [command for command in kshim_commands("serve") if CERTIFICATE not in command])
def test_a_kshim_command_serves(command: str, tmp_path: Path) -> None:
    program, serve, *options = shlex.split(command.replace(DEFAULT_BOOTSTRAP, "127.0.0.1:0"))
    assert (program, serve) == ("kshim", "serve")
    with Kshim(tmp_path / "log", *options) as kshim:
        assert kshim.address[1] > 0, kshim.log


def test_the_certificate_that_is_made_is_served(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    make, serve = (command for command in commands() if CERTIFICATE in command)
    path = str(tmp_path / CERTIFICATE)
    subprocess.run(shlex.split(make.replace(CERTIFICATE, path)), capture_output=True, timeout=TIMEOUT_S, check=True)
    options = shlex.split(serve.replace(CERTIFICATE, path).replace(DEFAULT_BOOTSTRAP, "127.0.0.1:0"))[2:]
    with Kshim(tmp_path / "log", *options) as kshim, socket.create_connection(kshim.address) as plain:
        context = ssl.create_default_context(cafile=path)
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            assert secured.version() == "TLSv1.3"


@pytest.mark.parametrize("command", kshim_commands("dump-offsets"))
def test_a_dump_shows_a_commit(command: str, tmp_path: Path) -> None:
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", "--topic=orders:3", f"--data-dir={tmp_path}/data") as kshim:
        commit_to(kshim.bootstrap, "billing")
        where = command.replace(DEFAULT_BOOTSTRAP, kshim.bootstrap).replace(" data", f" {tmp_path}/data")
        done = run(*shlex.split(where)[1:])
    assert done.returncode == 0, done.stderr
    assert re.search(r"offset=7 |\"offset\":7,", done.stdout), done.stdout


@pytest.mark.parametrize("command", kshim_commands("import"))
def test_an_import_makes_a_directory(command: str, tmp_path: Path) -> None:
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", "--topic=orders:3") as kshim:
        commit_to(kshim.bootstrap, "billing")
        where = command.replace(DEFAULT_BOOTSTRAP, kshim.bootstrap).replace(" data", f" {tmp_path}/data")
        done = run(*shlex.split(where)[1:])
    assert done.returncode == 0, done.stderr
    shown = run("dump-offsets", "--data-dir", f"{tmp_path}/data", "--group", "billing").stdout
    assert "OffsetCommit group=billing topic=orders partition=0" in shown


def commit_to(bootstrap: str, group: str) -> None:
    """Commit offset 7 of orders-0 for a group without members."""
    host, _, port = bootstrap.rpartition(":")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=(partition,))
    client = Client(host, int(port), client_id="readme")
    answer = client.ask(OffsetCommitRequest(group_id=group, member_id="", topics=(topic,)), 2)
    client.close()
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("kshim pipeline ")])
def test_a_pipeline_command_takes_its_options(command: str) -> None:
    """`integration/spark/test_tutorial.py` runs them: that takes Spark, and minutes."""
    _, _, name, *options = shlex.split(command)
    parser = argparse.ArgumentParser(exit_on_error=False)
    COMMANDS[name].add_options(parser)
    _, unknown = parser.parse_known_args(options)
    assert unknown == []


def test_no_command_is_without_a_test() -> None:
    known = ("make ", "openssl req ", "python -m pip install ", *(f"kshim {name} " for name in RUN))
    others = [line for line in commands() if not line.startswith(known)]
    assert others == []


@pytest.mark.parametrize("snippet", blocks(README, "python"))
def test_a_python_snippet_prints_what_stands_beside_it(snippet: str, tmp_path: Path) -> None:
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", snippet, re.MULTILINE)
    assert expected, "a snippet that shows nothing"
    with Kshim(tmp_path / "log", "--listen=127.0.0.1:0", "--topic=orders:3") as kshim:
        done = subprocess.run(
            [sys.executable, "-c", snippet.replace(DEFAULT_BOOTSTRAP, kshim.bootstrap)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected


def test_every_command_is_in_the_table_and_no_other() -> None:
    told = set(re.findall(r"^\| `kshim ([a-z][a-z-]+)", TEXT, re.MULTILINE))
    assert told == set(re.findall(r"^    ([\w-]+)(?:  |$)", run("--help").stdout, re.MULTILINE))


def test_every_option_of_serve_is_in_the_table_and_no_other() -> None:
    told = set(re.findall(r"^\| `(?:-\w`, `)?(--[\w-]+)", TEXT, re.MULTILINE))
    help_text = run("serve", "--help").stdout
    assert told == set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", help_text, re.MULTILINE)) - {"--help"}


def test_every_exit_code_is_in_the_table() -> None:
    told = {int(code) for code in re.findall(r"^\| +(\d+) \| [a-z]", TEXT, re.MULTILINE)}
    assert told == {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_")}


def test_links_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", TEXT) if "://" not in target]
    assert [target for target in targets if not (ROOT / target).exists()] == []
