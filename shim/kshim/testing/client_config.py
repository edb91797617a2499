"""What each client needs to be told to connect: its own option names, with addresses, TLS and SASL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


class Access(NamedTuple):
    """How clients connect. `ca_file` and `ca_pem` with TLS, `user`, `password` and `mechanism` with SASL."""

    bootstrap_servers: str
    security_protocol: str
    ca_file: str | None = None
    ca_pem: str | None = None
    mechanism: str | None = None
    user: str | None = None
    password: str | None = None


def client_config(client: str, access: Access) -> dict[str, Any]:
    """The options of a client. Raises ValueError for one that is not known."""
    make = _CLIENTS.get(client)
    if make is None:
        raise ValueError(f"client must be one of {', '.join(_CLIENTS)}, not {client!r}")
    return make(access)


def _kafka_python(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.security_protocol,
    }
    if access.ca_file is not None:
        config["ssl_cafile"] = access.ca_file
    return {**config, **_sasl_of_python(access)}


def _aiokafka(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.security_protocol,
    }
    if access.ca_pem is not None:
        import ssl

        config["ssl_context"] = ssl.create_default_context(cadata=access.ca_pem)
    return {**config, **_sasl_of_python(access)}


def _sasl_of_python(access: Access) -> dict[str, Any]:
    if access.mechanism is None:
        return {}
    return {
        "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }


def _librdkafka(access: Access) -> dict[str, Any]:
    config = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.security_protocol}
    if access.ca_pem is not None:
        config["ssl.ca.pem"] = access.ca_pem
    if access.mechanism is not None:
        config |= {
            "sasl.mechanism": access.mechanism,
            "sasl.username": access.user or "",
            "sasl.password": access.password or "",
        }
    return config


def _java(access: Access) -> dict[str, Any]:
    config = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.security_protocol}
    if access.ca_file is not None:
        config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca_file}
    if access.mechanism is not None:
        package, name = ("plain", "Plain") if access.mechanism == "PLAIN" else ("scram", "Scram")
        module = f"org.apache.kafka.common.security.{package}.{name}LoginModule"
        config |= {
            "sasl.mechanism": access.mechanism,
            "sasl.jaas.config": f"{module} required username={_quoted(access.user)} password={_quoted(access.password)};",
        }
    return config


def _quoted(value: str | None) -> str:
    escaped = (value or "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_CLIENTS: Final[dict[str, Callable[[Access], dict[str, Any]]]] = {
    "kafka-python": _kafka_python,
    "confluent-kafka": _librdkafka,
    "aiokafka": _aiokafka,
    "java": _java,
}
