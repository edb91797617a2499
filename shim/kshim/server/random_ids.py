"""Random ids of a broker, drawn from the operating system. Cheaper to import than `uuid`."""

from __future__ import annotations

import os
from binascii import b2a_base64


def new_topic_id() -> bytes:
    """16 bytes, a random (version 4) UUID, whose base64 form does not begin with a hyphen. Kafka: Uuid.randomUuid."""
    while True:
        octets = bytearray(os.urandom(16))
        octets[6] = octets[6] & 0x0F | 0x40
        octets[8] = octets[8] & 0x3F | 0x80
        if octets[0] >> 2 != 0b111110:  # what base64 writes as a hyphen, which command lines take for an option
            return bytes(octets)


def new_member_suffix() -> str:
    """What Kafka appends to a client id to make a member id: a random UUID as text."""
    digits = new_topic_id().hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_cluster_id() -> str:
    """22 characters of URL-safe base64, as Kafka prints its ids."""
    return b2a_base64(new_topic_id(), newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def new_salt() -> bytes:
    """16 random bytes for a password."""
    return os.urandom(16)


def new_nonce() -> str:
    """24 random characters of base64, for one SCRAM authentication."""
    return b2a_base64(os.urandom(18), newline=False).decode()
