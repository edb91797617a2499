"""What every key and value of Kafka's internal topics has in common: an int16 version in front, and no bytes behind."""

from __future__ import annotations

import struct
from typing import TypeVar

from kshim_protocol.codec import codec
from kshim_protocol.frame import ProtocolError
from kshim_protocol.schema import Struct

S = TypeVar("S", bound=Struct)

INT16 = struct.Struct(">h")


class UnknownValueVersion(ProtocolError):
    """The value of a known record has a version that this side does not know: `version`."""


def version_of(data: bytes, message: str) -> int:
    """The version in front; `message` is for the error. Raises ProtocolError."""
    if len(data) < INT16.size:
        raise ProtocolError(f"{len(data)} bytes hold no version", message=message, field="version", offset=0)
    version: int = INT16.unpack_from(data)[0]
    return version


def parse_versioned(cls: type[S], data: bytes) -> tuple[int, S]:
    """(version, what is behind it). Raises ProtocolError, of it UnknownValueVersion."""
    version = version_of(data, cls.info.name)
    versions = cls.info.versions
    if versions is None or not versions[0] <= version <= versions[1]:
        raise UnknownValueVersion(
            f"unknown version {version}", message=cls.info.name, version=version, field="version", offset=0
        )
    return version, parse_rest(cls, version, data)


def parse_rest(cls: type[S], version: int, data: bytes) -> S:
    """What is behind the version, read as `version` of `cls`. Raises ProtocolError."""
    found, end = codec(cls, version).parse(data, INT16.size)
    if end != len(data):
        raise ProtocolError(
            f"{len(data) - end} bytes left over", message=cls.info.name, version=version, field="end", offset=end
        )
    return found
