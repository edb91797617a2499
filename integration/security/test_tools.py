"""kshim's tools on secured brokers, told how to connect as Kafka's own tools are."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.security.sasl_client import connected
from integration.security.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    SESSION_MS,
    USERS,
    SecureKafka,
    SecureKshim,
    running_kshim,
)
from kshim.cli.command_config import security_of
from kshim.cli.main import main
from kshim.tools.client import Client
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kshim_protocol.messages.metadata import MetadataRequest

MODULES = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}
HASHES = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
USER = "bob"


def properties(mechanism: str, user: str, password: str) -> dict[str, str]:
    """Those of a Java client."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{quoted}";',
    }


@pytest.fixture(scope="module")
def secure_kshim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKshim]:
    """One of these tests' own: `kshim why` and `kshim top` ask for the topic of events, which is there from then on."""
    with running_kshim(tmp_path_factory.mktemp("secure-kshim-of-tools")) as kshim:
        yield kshim


@pytest.fixture(params=list(MODULES))
def login(request: pytest.FixtureRequest, secure_broker: SecureKshim | SecureKafka) -> Iterator[dict[str, str]]:
    """What lets the administrator in, with each mechanism."""
    mechanism: str = request.param
    if mechanism == "PLAIN":
        yield properties(mechanism, ADMIN, ADMIN_PASSWORD)
        return
    number, name = HASHES[mechanism]
    salt = os.urandom(20)
    salted = hashlib.pbkdf2_hmac(name, ADMIN_PASSWORD.encode(), salt, 4096)
    row = ScramCredentialUpsertion(name=ADMIN, mechanism=number, iterations=4096, salt=salt, salted_password=salted)
    admin = connected(secure_broker.secure, ADMIN, ADMIN_PASSWORD)
    admin.ask(AlterUserScramCredentialsRequest(deletions=(), upsertions=(row,)), 0)
    yield properties(mechanism, ADMIN, ADMIN_PASSWORD)
    deletion = ScramCredentialDeletion(name=ADMIN, mechanism=number)
    admin.ask(AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()), 0)
    admin.close()


def test_why_answers(
    login: dict[str, str],
    secure_broker: SecureKshim | SecureKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "client.properties"
    lines = [f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in login.items()]
    file.write_text("".join(lines), encoding="latin-1")
    host, port = secure_broker.secure
    command = ["why", "--all", "--bootstrap-server", f"{host}:{port}", "--command-config", str(file)]
    assert main([*command, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_a_connection_outlives_its_session_by_authenticating_again(secure_broker: SecureKshim | SecureKafka) -> None:
    security = security_of(properties("PLAIN", USER, USERS[USER]))
    client = Client(*secure_broker.short, client_id="test", security=security)
    end_s = time.monotonic() + 2.5 * SESSION_MS / 1_000
    while time.monotonic() < end_s:
        assert client.ask(MetadataRequest(topics=()), 1).brokers
    client.close()
