"""Whether a cluster answers is said within five seconds, and why it does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.support.certificates import Authority
from integration.support.kafka import free_ports
from integration.support.kshim import KshimProcess
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.inputs.reachable import require_reachable

SAID_WITHIN_S = 15
"""It gives up after three; Java's client after thirty. The rest is for a busy machine."""


@pytest.fixture(scope="module")
def kshim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KshimProcess]:
    process = KshimProcess(tmp_path_factory.mktemp("kshim"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_one_of_the_brokers_is_enough(kshim: KshimProcess) -> None:
    require_reachable(f"127.0.0.1:1,{kshim.bootstrap}", {})


def test_addresses_are_read_as_java_reads_them(kshim: KshimProcess) -> None:
    require_reachable(f"PLAINTEXT://{kshim.bootstrap}, ", {})


@pytest.fixture
def with_certificates(tmp_path: Path) -> Iterator[KshimProcess]:
    """A broker that wants a certificate of each client, and says so in the handshake, as TLS 1.2 does."""
    authority = Authority()
    trusted = tmp_path / "authority.pem"
    trusted.write_text(authority.certificate_pem)
    (port,) = free_ports(1)
    process = KshimProcess(
        tmp_path / "kshim",
        listeners=f"SSL://127.0.0.1:{port}",
        config={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server().write(tmp_path / "server.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "ssl.client.auth": "required",
            "ssl.enabled.protocols": "TLSv1.2",
        },
    )
    process.start()
    yield process
    process.stop()


def test_a_broker_that_wants_a_certificate_is_left_to_java(with_certificates: KshimProcess) -> None:
    require_reachable(with_certificates.bootstrap, {"security.protocol": "SSL"})


def test_with_classes_of_the_user_the_address_must_only_be_there(silent: str) -> None:
    options = {"security.protocol": "${env:PROTOCOL}", "config.providers": "env"}
    require_reachable(silent, options)
    with pytest.raises(PipelineError, match=r"No broker answers at 127.0.0.1:1 "):
        require_reachable("127.0.0.1:1", options)


@pytest.fixture
def with_login(tmp_path: Path) -> Iterator[KshimProcess]:
    """A broker that knows alice."""
    (port,) = free_ports(1)
    process = KshimProcess(
        tmp_path,
        listeners=f"SASL_PLAINTEXT://127.0.0.1:{port}",
        config={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            'PlainLoginModule required user_alice="secret";',
        },
    )
    process.start()
    yield process
    process.stop()


def logged_in(password: str, mechanism: str = "PLAIN", module: str = "plain.Plain") -> dict[str, str]:
    entry = f"org.apache.kafka.common.security.{module}LoginModule required username=alice password={password};"
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": entry}


def test_who_is_not_let_in_is_told_why(with_login: KshimProcess) -> None:
    require_reachable(with_login.bootstrap, logged_in("secret"))
    with pytest.raises(PipelineError, match=r"Invalid username or password"):
        require_reachable(with_login.bootstrap, logged_in("another"))
    with pytest.raises(PipelineError, match=r"SASL mechanism SCRAM-SHA-256, but PLAIN: set sasl\.mechanism"):
        require_reachable(with_login.bootstrap, logged_in("secret", "SCRAM-SHA-256", "scram.Scram"))


def test_a_login_without_an_answer_is_not_called_tls(silent: str) -> None:
    with pytest.raises(PipelineError, match=r"no connection to .*no response to SaslHandshake"):
        require_reachable(silent, logged_in("secret"))


def test_an_absent_broker_is_named() -> None:
    with pytest.raises(
        PipelineError, match=r"No broker answers at 127.0.0.1:1 \(127.0.0.1:1: Connection refused\)"
    ) as error:
        require_reachable("127.0.0.1:1", {})
    assert error.value.exit_code == EXIT_UNAVAILABLE


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_an_address_that_is_silent_is_given_up(silent: str, protocol: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(PipelineError, match=r"No broker answers .*no answer"):
        require_reachable(f"{silent},{silent}", {"security.protocol": protocol})
    assert time.monotonic() - began_s < SAID_WITHIN_S


def test_another_security_protocol_is_suspected(kshim: KshimProcess) -> None:
    with pytest.raises(PipelineError, match=r"no answer in TLS, which security\.protocol=SSL asks for"):
        require_reachable(kshim.bootstrap, {"security.protocol": "SSL"})
