"""Topic ids as text: 22 characters of URL-safe base64, as Kafka prints them."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64


def id_text(topic_id: bytes) -> str:
    """The text of 16 bytes."""
    return b2a_base64(topic_id, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def id_bytes(text: str) -> bytes:
    """The 16 bytes of a text. Raises ValueError."""
    try:
        topic_id = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    except Base64Error as error:
        raise ValueError(f"{text!r} is not a topic id: {error}") from None
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is not a topic id")
    return topic_id
