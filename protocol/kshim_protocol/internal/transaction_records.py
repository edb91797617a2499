"""Records of `__transaction_state`: keys and values, each behind its int16 version.

A null value is a tombstone and the caller's business. Kafka: TransactionLog.
"""

from __future__ import annotations

import struct

from kshim_protocol.codec import codec
from kshim_protocol.frame import BuildError
from kshim_protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from kshim_protocol.internal.versioned import INT16, parse_rest, parse_versioned, version_of

_KEY_TYPE = 0
_TYPE_AND_LENGTH = struct.Struct(">hh")


def value_version(transaction_version: int) -> int:
    """The version of values that Kafka 4.4 writes at a level of transaction.version; every Kafka reads version 0."""
    return 1 if transaction_version >= 1 else 0


def parse_transaction_key(data: bytes) -> TransactionLogKey | int:
    """The key of a record, or its type when that is not known here. Raises ProtocolError."""
    type_ = version_of(data, "TransactionLogKey")
    if type_ != _KEY_TYPE:
        return type_
    return parse_rest(TransactionLogKey, 0, data)


def parse_transaction_value(data: bytes) -> TransactionLogValue:
    """The value of a record, of any version. Raises ProtocolError, also for a version this side does not know."""
    return parse_versioned(TransactionLogValue, data)[1]


def build_transaction_key(transactional_id: str) -> bytes:
    """Raises BuildError when the id does not fit."""
    encoded = transactional_id.encode()
    try:
        return _TYPE_AND_LENGTH.pack(_KEY_TYPE, len(encoded)) + encoded
    except struct.error as error:
        raise BuildError(f"TransactionLogKey of {transactional_id!r}: {error}") from None


def build_transaction_value(value: TransactionLogValue, version: int = 0) -> bytes:
    """Raises BuildError, also for what this version has no room for."""
    return INT16.pack(version) + codec(TransactionLogValue, version).build(value)
