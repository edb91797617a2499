"""Topic ids as Kafka prints them."""

from __future__ import annotations

from binascii import b2a_base64


def uuid_text(value: bytes) -> str:
    """22 characters of URL-safe base64."""
    return b2a_base64(value, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")
