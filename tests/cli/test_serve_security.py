"""`kshim serve` with users and access rules: what it refuses to start with, and what it warns of."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.process import Kshim, run

SASL = "--config=listeners=SASL_PLAINTEXT://127.0.0.1:0"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SASL, "--config=sasl.enabled.mechanisms=GSSAPI"), "sasl.enabled.mechanisms=GSSAPI: expected one or more of"),
        ((SASL, f"--config={JAAS}=hush"), f"{JAAS}=[hidden]"),
        ((SASL, "--users=nowhere"), "--users: cannot read nowhere"),
        (("--config=authorizer.class.name=com.example.Mine",), "StandardAuthorizer"),
        (("--acls", "--config=super.users=hush"), "super.users=hush: expected TYPE:NAME"),
    ],
)
def test_what_cannot_be_keeps_it_from_starting(arguments: tuple[str, ...], words: str) -> None:
    done = run("serve", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_line_of_users_is_named_by_its_number(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:x\nhush\n")
    done = run("serve", SASL, f"--users={users}")
    assert done.returncode == 2
    assert "line 2 is not NAME:PASSWORD" in done.stderr
    assert "hush" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SASL,), "Nobody can log in on SASL_PLAINTEXT"),
        (("--listen=127.0.0.1:0", "--users=nowhere"), "--users has no effect"),
        (("--listen=127.0.0.1:0", "--acls"), "nobody may do anything"),
    ],
)
def test_what_is_surely_a_mistake_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    log = tmp_path / "stderr"
    with Kshim(log, *arguments) as kshim:
        assert kshim.end(signal.SIGTERM) == (0, "")
    assert words in log.read_text()


def test_damaged_access_rules_keep_it_from_starting(tmp_path: Path) -> None:
    with Kshim(tmp_path / "stderr", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}") as kshim:
        kshim.end(signal.SIGTERM)
    (tmp_path / "data" / "acls.json").write_text("{")
    done = run("serve", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}", "--acls")
    assert done.returncode == 3
    assert "acls.json in the data directory is damaged" in done.stderr
