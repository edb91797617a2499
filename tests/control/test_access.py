"""Who may use the HTTP interface: the token, and what web pages of other sites send."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.process import run
from tests.control.service import Service, a_service

TOKEN = "s3cret-of-the-tests"


def test_without_the_token_nothing_but_health_answers(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    with a_service(tmp_path, f"--control-token-file={file}") as service:
        paths = json.loads(service.ask("GET", "/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).text)[
            "paths"
        ]
        answers = {(method, path): service.ask(method.upper(), path).status for path in paths for method in paths[path]}
        assert answers.pop(("get", "/health")) == 200
        assert len(answers) > 5
        assert set(answers.values()) == {401}
        assert service.ask("GET", "/no/such/path").status == 401
        for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \u00e9"):
            assert service.ask("GET", "/ready", headers={"Authorization": wrong}).status == 401
        assert service.ask("GET", "/ready", headers={"Authorization": f"bearer {TOKEN}"}).status == 200


def test_the_token_may_come_from_the_environment(tmp_path: Path) -> None:
    with a_service(tmp_path, environment={**os.environ, "KSHIM_CONTROL_TOKEN": TOKEN}) as service:
        assert service.ask("GET", "/v1/topics").status == 401
        assert service.ask("GET", "/v1/topics", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_an_address_that_others_can_reach_requires_a_token() -> None:
    done = run("serve", "--listen=127.0.0.1:0", "--control=0.0.0.0:0")
    assert done.returncode == 2
    assert "--control: 0.0.0.0 can be reached from other machines, so set --control-token-file FILE" in done.stderr


@pytest.mark.parametrize("content", ["", "\n", "two words", "\u00fc"])
def test_a_token_is_one_line_of_printable_characters(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    done = run("serve", "--listen=127.0.0.1:0", "--control=127.0.0.1:0", f"--control-token-file={file}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--control-token-file" in done.stderr


@pytest.mark.parametrize("host", ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", ""])
def test_a_page_whose_name_points_to_this_machine_is_refused(service: Service, host: str) -> None:
    assert service.ask("GET", "/v1/topics", headers={"Host": host}).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:9093"])
def test_this_machine_may_be_called_by_its_names(service: Service, host: str) -> None:
    assert service.ask("GET", "/v1/topics", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "header", [("Origin", "http://attacker.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")]
)
def test_pages_of_other_sites_are_refused(service: Service, header: tuple[str, str]) -> None:
    answer = service.ask("POST", "/v1/topics", {"name": "of-another-site"}, dict([header]))
    assert answer.status == 403
    assert service.ask("GET", "/v1/topics/of-another-site").status == 404


def test_a_form_cannot_be_posted(service: Service) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = service.ask("POST", "/v1/topics", b'{"name": "of-a-form"}', {"Content-Type": kind})
        assert (answer.status, answer.headers["content-type"]) == (415, "application/problem+json")
