"""Connection settings and names of errors, as aiokafka has them; and its loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from aiokafka.errors import ProducerFenced
from aiokafka.helpers import create_ssl_context

from kshim_protocol.errors import ErrorCode

T = TypeVar("T")

_loop = asyncio.new_event_loop()


def start_loop() -> None:
    """Run the event loop of all clients of this process in a thread of its own."""
    threading.Thread(target=_loop.run_forever, daemon=True).start()


def wait(doing: Coroutine[Any, Any, T]) -> T:
    """Do it in the loop, from another thread."""
    return asyncio.run_coroutine_threadsafe(doing, _loop).result()


def connection(bootstrap: str, security: Mapping[str, str] | None) -> dict[str, Any]:
    """Arguments that every client of the library takes."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if security is not None:
        settings["security_protocol"] = security["protocol"]
        if "SSL" in security["protocol"].split("_"):
            settings["ssl_context"] = create_ssl_context(
                cafile=security.get("ca"), certfile=security.get("certificate"), keyfile=security.get("key")
            )
        names = {"mechanism": "sasl_mechanism", "username": "sasl_plain_username", "password": "sasl_plain_password"}
        settings |= {theirs: security[ours] for ours, theirs in names.items() if ours in security}
    return settings


def error_name(error: BaseException) -> str:
    """Kafka's constant where the class, or the one that caused it, has its number; else the class."""
    if isinstance(error, ProducerFenced):
        return "PRODUCER_FENCED"  # what it was told by has no class with a number
    for each in (error, error.__cause__, error.__context__):
        errno = getattr(each, "errno", None)
        if isinstance(errno, int) and errno > 0:
            return ErrorCode(errno).name
    return type(error).__name__


def encoded(text: str | None) -> bytes | None:
    """UTF-8; None stays None."""
    return None if text is None else text.encode()


def decoded(data: bytes | None) -> str | None:
    """UTF-8; None stays None."""
    return None if data is None else data.decode()
