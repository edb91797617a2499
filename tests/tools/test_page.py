"""`kshim page`: the live page in front of any cluster, which learns of groups as `kshim top` does."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, TIMEOUT_S, hearing_ctrl_c, run
from tests.control.members import Member
from tests.control.service import Service, a_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("page"), "--topic=orders:2") as service:
        yield service


@contextmanager
def a_page(bootstrap: str, *options: str) -> Iterator[str]:
    """The host and port where it is."""
    command = [COMMAND, "page", f"--bootstrap-server={bootstrap}", "--listen=127.0.0.1:0", "--interval=1", *options]
    with hearing_ctrl_c(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        killer = threading.Timer(TIMEOUT_S, process.kill)
        killer.start()
        try:
            assert process.stdout is not None
            found = re.search(r"http://([^/]+)/page", process.stdout.readline())
            assert found is not None
            yield found[1]
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            killer.cancel()
            process.kill()


def get(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def read_until(address: str, path: str, part: str) -> str:
    """The page, as soon as the part is in it: it looks once in a second."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        _, text = get(address, path)
        if part in text:
            return text
    raise AssertionError(text)


def test_groups_of_a_cluster_are_shown_with_members_and_lag(service: Service) -> None:
    with Member(service.bootstrap, "watched") as member, a_page(service.bootstrap) as address:
        member.join().commit("orders", 0)
        page = read_until(address, "/page", "<bdi>watched</bdi>")
        assert "Stable" in page
        group = read_until(address, "/page?group=watched", "lag 0")
        assert "client-of-watched@127.0.0.1" in group
        assert "<svg class='lanes'" in group
        assert "data-post" not in group
        assert get(address, "/page?group=nobody")[0] == 404


def test_it_can_only_be_looked_at_and_has_nothing_else(service: Service) -> None:
    with a_page(service.bootstrap) as address:
        assert get(address, "/")[0] == 302
        assert get(address, "/page", "POST")[0] == 403
        assert get(address, "/v1/groups")[0] == 404
        assert get(address, "/page", Host="attacker.example")[0] == 421


def test_a_cluster_that_goes_away_is_named_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with a_service(tmp_path) as first:
        port = first.bootstrap.rpartition(":")[2]
        with a_page(first.bootstrap) as address:
            assert "trying again" not in get(address, "/page")[1]
            first.process.process.send_signal(signal.SIGTERM)
            read_until(address, "/page", "trying again")
            with a_service(tmp_path / "second", f"--listen=127.0.0.1:{port}"):
                read_until(address, "/page", "No consumer group yet")


def test_without_a_cluster_it_says_so_and_ends() -> None:
    done = run("page", "--bootstrap-server=127.0.0.1:1", "--listen=127.0.0.1:0")
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr


def test_beyond_this_machine_it_needs_a_token() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KSHIM_CONTROL_TOKEN"}
    done = subprocess.run(
        [COMMAND, "page", "--bootstrap-server=127.0.0.1:1", "--listen=0.0.0.0:0"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert "--control-token-file" in done.stderr
