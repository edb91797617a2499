"""The tools reach brokers with TLS and SASL, told as Kafka's own tools are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kshim.cli.command_config import read_command_config, security_of
from kshim.cli.exit_codes import CommandError
from kshim.cli.main import main
from kshim.testing import Kshim
from kshim.tools.client_security import AuthenticationFailed, Sasl, authenticate
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kshim_protocol.messages.sasl_handshake import SaslHandshakeResponse

USERS = {"ann": 'se"cret \\1'}
SCENARIO = """# A client asks for a member id
suite: join
rules: join.id
run: wire 5s

join a                      -> MEMBER_ID_REQUIRED
"""


def written(folder: Path, properties: Mapping[str, Any]) -> str:
    """A properties file."""
    path = folder / "client.properties"
    lines = [f"{key}={str(value).replace(chr(92), chr(92) * 2)}\n" for key, value in properties.items()]
    path.write_text("".join(lines), encoding="latin-1")
    return str(path)


def reaches(kshim: Kshim, config: str, capsys: pytest.CaptureFixture[str]) -> bool:
    arguments = ["--bootstrap-server", kshim.bootstrap_servers, "--command-config", config]
    assert main(["why", "--all", *arguments, "--output", "json"]) == 0
    return bool(json.loads(capsys.readouterr().out)["version"] == 1)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_is_let_in_with_a_password(mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Kshim(users=USERS) as kshim:
        config = written(tmp_path, kshim.client_config("java", mechanism=mechanism))
        assert reaches(kshim, config, capsys)


def test_a_broker_is_reached_through_tls_that_its_certificate_vouches_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Kshim(users=USERS, tls=True) as kshim:
        assert reaches(kshim, written(tmp_path, kshim.client_config("java")), capsys)


def test_every_tool_takes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Kshim(topics={"orders": 1}, users=USERS, tls=True) as kshim:
        kshim.produce("orders", "a record")
        config = written(tmp_path, kshim.client_config("java"))
        arguments = ["--bootstrap-server", kshim.bootstrap_servers, "--command-config", config]
        scenario = tmp_path / "asks.txt"
        scenario.write_text(SCENARIO)
        assert main(["conform", "--scenario", str(scenario), *arguments]) == 0
        assert main(["dump-offsets", *arguments]) == 0
        assert main(["import", "--data-dir", str(tmp_path / "data"), "--topic", "orders", *arguments]) == 0


def test_a_wrong_password_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Kshim(users=USERS) as kshim:
        config = kshim.client_config("java", mechanism="PLAIN")
        config["sasl.jaas.config"] = config["sasl.jaas.config"].replace("cret", "krit")
        arguments = ["--bootstrap-server", kshim.bootstrap_servers, "--command-config", written(tmp_path, config)]
        assert main(["why", "--all", *arguments]) == 3
        assert "Authentication failed" in capsys.readouterr().err


def test_a_broker_that_nobody_vouches_for_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Kshim(tls=True) as kshim:
        config = written(tmp_path, {"security.protocol": "SSL"})
        arguments = ["--bootstrap-server", kshim.bootstrap_servers, "--command-config", config]
        assert main(["why", "--all", *arguments]) == 3
        assert "certificate verify failed" in capsys.readouterr().err.lower()


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is TLS, not one of"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI, not one of"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "PLAIN needs sasl.jaas.config"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "a file with the token"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "t.jks"}, "ssl.truststore.type is JKS: only PEM"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "?"}, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_said(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        security_of(properties)


def test_a_file_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(CommandError, match=r"cannot read nowhere\.properties"):
        read_command_config("nowhere.properties")


def test_the_file_needs_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--all", "--data-dir", ".", "--command-config", "c"]) == 2
    assert "it needs --bootstrap-server" in capsys.readouterr().err


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Sasl("PLAIN", "ann", "secret"))


# A bearer token


class Bearer:
    """A broker's side of OAUTHBEARER: lets in who has the token."""

    def __init__(self, token: str) -> None:
        self._wanted = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def ask(self, request: Any, version: int) -> Any:
        if not isinstance(request, SaslAuthenticateRequest):
            return SaslHandshakeResponse(error_code=0, mechanisms=("OAUTHBEARER",))
        reason = b"" if request.auth_bytes == self._wanted else b'{"status":"invalid_token"}'
        return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=reason, session_lifetime_ms=9)


def test_a_token_is_read_from_its_file_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    sasl = security_of(properties).sasl
    assert sasl is not None
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert authenticate(Bearer(token).ask, sasl) == 9
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        authenticate(Bearer("third").ask, sasl)
    file.unlink()
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        authenticate(Bearer("third").ask, sasl)
