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
        (("--listen=127.0.0.1:0", "--users=nowhere"), "--users: cannot read nowhere"),
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
    for arguments, environment in (((f"--users={users}",), {}), ((), {"KSHIM_USERS": str(users)})):
        done = run("serve", SASL, *arguments, environment=environment)
        assert done.returncode == 2
        assert done.stderr == f"kshim: {users}: line 2 is not NAME:PASSWORD\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SASL,), "No client can authenticate on SASL_PLAINTEXT"),
        (("--listen=127.0.0.1:0", "--users=/dev/null"), "The users of /dev/null have no effect"),
        (("--listen=127.0.0.1:0", "--acls"), "every request will be refused"),
    ],
)
def test_what_is_surely_a_mistake_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    log = tmp_path / "stderr"
    with Kshim(log, *arguments) as kshim:
        assert kshim.end(signal.SIGTERM) == (0, "")
    assert words in log.read_text()


@pytest.mark.parametrize(("mode", "is_warned_about"), [(0o600, False), (0o400, False), (0o640, True), (0o644, True)])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--users", "alice:secret\n"),
        ("--properties", f'{JAAS}=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";\n'),
    ],
)
def test_a_file_with_passwords_that_others_can_read_is_warned_about(
    option: str, text: str, mode: int, is_warned_about: bool, tmp_path: Path
) -> None:
    file, log = tmp_path / "file", tmp_path / "stderr"
    file.write_text(text)
    file.chmod(mode)
    with Kshim(log, SASL, f"{option}={file}") as kshim:
        assert kshim.end(signal.SIGTERM) == (0, "")
    assert (f"{file} contains passwords and can be read by other users" in log.read_text()) is is_warned_about


def test_a_file_without_passwords_may_be_read_by_everybody(tmp_path: Path) -> None:
    file, log = tmp_path / "file", tmp_path / "stderr"
    file.write_text("group.max.size=3\n")
    with Kshim(log, "--listen=127.0.0.1:0", f"--properties={file}") as kshim:
        assert kshim.end(signal.SIGTERM) == (0, "")
    assert "can be read by other users" not in log.read_text()


def test_damaged_access_rules_keep_it_from_starting(tmp_path: Path) -> None:
    with Kshim(tmp_path / "stderr", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}") as kshim:
        kshim.end(signal.SIGTERM)
    (tmp_path / "data" / "acls.json").write_text("{")
    done = run("serve", "--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}", "--acls")
    assert done.returncode == 3
    assert "acls.json in the data directory is damaged" in done.stderr
