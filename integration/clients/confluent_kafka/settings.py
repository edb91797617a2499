"""Connection settings and names of errors, as librdkafka has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka

from kshim_protocol.errors import ErrorCode


def connection(bootstrap: str, security: Mapping[str, str] | None) -> dict[str, Any]:
    """Properties that every client of the library takes."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if security is not None:
        settings["security.protocol"] = security["protocol"]
        names = {
            "ca": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
            "mechanism": "sasl.mechanism",
            "username": "sasl.username",
            "password": "sasl.password",
        }
        settings |= {theirs: security[ours] for ours, theirs in names.items() if ours in security}
    return settings


def code_name(error: Any) -> str:
    """Kafka's constant; librdkafka has names of its own for some. An error of the client itself keeps its own."""
    if error is None:
        return "NONE"
    if error.code() == confluent_kafka.KafkaError._FENCED:
        return "PRODUCER_FENCED"
    return ErrorCode(error.code()).name if error.code() > 0 else str(error.name())


def error_name(error: Exception) -> str:
    """Of what a call raised."""
    if isinstance(error, confluent_kafka.KafkaException) and isinstance(error.args[0], confluent_kafka.KafkaError):
        return code_name(error.args[0])
    return type(error).__name__


def encoded(text: str | None) -> bytes | None:
    """UTF-8; None stays None."""
    return None if text is None else text.encode()


def decoded(data: Any) -> str | None:
    """UTF-8; None stays None."""
    return None if data is None else data.decode()
