"""Records of `__transaction_state`: keys and values, each behind its int16 version.

A null value is a tombstone and the caller's business. Kafka: TransactionLog.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError, ProtocolError
from kshim_protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from kshim_protocol.schema import Struct

S = TypeVar("S", bound=Struct)

TRANSACTION_LOG_VERSION = 0
"""Version of values that Kafka 4.4 writes where transaction.version is 0, as it is here; every Kafka reads it."""

_KEY_TYPE = 0
_INT16 = struct.Struct(">h")
_TYPE_AND_LENGTH = struct.Struct(">hh")


def parse_transaction_key(data: bytes) -> TransactionLogKey | int:
    """The key of a record, or its type when that is not known here. Raises ProtocolError."""
    type_ = _version(data, "TransactionLogKey")
    if type_ != _KEY_TYPE:
        return type_
    return _parse(TransactionLogKey, 0, data)


def parse_transaction_value(data: bytes) -> TransactionLogValue:
    """The value of a record, of any version. Raises ProtocolError, also for a version this side does not know."""
    version = _version(data, "TransactionLogValue")
    versions = TransactionLogValue.info.versions
    if versions is None or not versions[0] <= version <= versions[1]:
        raise ProtocolError(f"unknown version {version}", message="TransactionLogValue", field="version", offset=0)
    return _parse(TransactionLogValue, version, data)


def build_transaction_key(transactional_id: str) -> bytes:
    """Raises BuildError when the id does not fit."""
    encoded = transactional_id.encode()
    try:
        return _TYPE_AND_LENGTH.pack(_KEY_TYPE, len(encoded)) + encoded
    except struct.error as error:
        raise BuildError(f"TransactionLogKey of {transactional_id!r}: {error}") from None


def build_transaction_value(value: TransactionLogValue) -> bytes:
    """Raises BuildError, also for what this version has no room for."""
    return _INT16.pack(TRANSACTION_LOG_VERSION) + codec(TransactionLogValue, TRANSACTION_LOG_VERSION).build(value)


def _version(data: bytes, message: str) -> int:
    if len(data) < _INT16.size:
        raise ProtocolError(f"{len(data)} bytes hold no version", message=message, field="version", offset=0)
    version: int = _INT16.unpack_from(data)[0]
    return version


def _parse(cls: type[S], version: int, data: bytes) -> S:
    found, end = codec(cls, version).parse(data, _INT16.size)
    if end != len(data):
        raise ProtocolError(
            f"{len(data) - end} bytes left over", message=cls.__name__, version=version, field="end", offset=end
        )
    return found
