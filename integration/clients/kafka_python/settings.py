"""Connection settings and names of errors, as kafka-python has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshim_protocol.errors import ErrorCode


def connection(bootstrap: str, security: Mapping[str, str] | None) -> dict[str, Any]:
    """Arguments that every client of the library takes."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if security is not None:
        settings["security_protocol"] = security["protocol"]
        names = {
            "ca": "ssl_cafile",
            "certificate": "ssl_certfile",
            "key": "ssl_keyfile",
            "mechanism": "sasl_mechanism",
            "username": "sasl_plain_username",
            "password": "sasl_plain_password",
        }
        settings |= {theirs: security[ours] for ours, theirs in names.items() if ours in security}
    return settings


def error_name(error: Any) -> str:
    """Kafka's constant where the class has its number, else the class."""
    errno = getattr(error, "errno", None)
    if isinstance(errno, int) and errno >= 0:
        return ErrorCode(errno).name
    return type(error).__name__


def encoded(text: str | None) -> bytes | None:
    """UTF-8; None stays None."""
    return None if text is None else text.encode()


def decoded(data: bytes | None) -> str | None:
    """UTF-8; None stays None."""
    return None if data is None else data.decode()
