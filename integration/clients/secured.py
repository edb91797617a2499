"""Both brokers with TLS, SASL and access rules, told so in Kafka's own keys."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from integration.support.broker import Broker
from integration.support.certificates import Authority
from integration.support.kafka import RealKafka, free_ports
from integration.support.kshim import KshimProcess

LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "PASSWORD": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
"""Name and protocol. MUTUAL wants a certificate of the client."""
ALICE, BOB = ("alice", 'alice\'s; "secret"'), ("bob", "bob-secret")
"""Users of PLAIN, with their passwords."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured(Broker, Protocol):
    """A broker with these listeners; users may do all that no rule reserves for others."""

    keys: Keys

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        ...


class Keys:
    """Certificates of a broker and a client by one authority, and an authority that signed nothing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        authority = Authority()
        self.ca = _written(folder / "ca.pem", authority.certificate_pem)
        self.stranger = _written(folder / "stranger.pem", Authority("a stranger").certificate_pem)
        self.server = str(authority.server().write(folder / "server.pem"))
        client = authority.signs("a client")
        self.client_certificate = _written(folder / "client.pem", client.certificate_pem)
        self.client_key = _written(folder / "client.key", client.key_pem())


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _properties(keys: Keys, ports: dict[str, int]) -> dict[str, str]:
    users = " ".join(f'user_{user}="{_quoted(password)}"' for user, password in (ALICE, BOB))
    plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keys.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": keys.ca,
        "listener.name.mutual.ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": "200",
    }
    for listener in ("password", "both"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": plain,
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        }
    return properties


def _quoted(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


class SecuredKshim(KshimProcess):
    """`kshim serve`; the plain listener is what it names first."""

    def __init__(self, folder: Path) -> None:
        self.keys = Keys(folder / "keys")
        self._ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        properties = _properties(self.keys, self._ports)
        listeners = properties.pop("listeners")
        super().__init__(folder / "kshim", config=properties, durable=True, listeners=listeners)

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"


class SecuredKafka(RealKafka):
    """Kafka; the plain listener is between the broker and itself, too."""

    def __init__(self, folder: Path) -> None:
        self.keys = Keys(folder / "keys")
        self._others = dict(zip(list(LISTENERS)[1:], free_ports(len(LISTENERS) - 1), strict=True))
        super().__init__(folder / "kafka")

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        return self.bootstrap if listener == "PLAINTEXT" else f"127.0.0.1:{self._others[listener]}"

    def _write_properties(self, controller_port: int) -> None:
        found = _properties(self.keys, {"PLAINTEXT": self._port, **self._others})
        self._properties = {
            **{key: value.replace("\\", "\\\\") for key, value in found.items()},  # as a file of properties has them
            "advertised.listeners": found["listeners"],
            "listeners": f"{found['listeners']},CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map": f"{found['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        }
        super()._write_properties(controller_port)
