"""Records of `__share_group_state`: keys and values, each behind its int16 version.

The version of a key is the record's type: 0 for snapshots, and for tombstones, 1 for updates. Kafka: ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

from kshim_protocol.codec import codec
from kshim_protocol.internal.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kshim_protocol.internal.versioned import INT16, parse_rest, parse_versioned, version_of

_KEY_VERSION = 0
_VALUE_VERSION = 0


def parse_share_key(data: bytes) -> ShareSnapshotKey | ShareUpdateKey | int:
    """The key of a record, or its type when that is not known here. Raises ProtocolError."""
    match version_of(data, "ShareSnapshotKey"):
        case 0:
            return parse_rest(ShareSnapshotKey, _KEY_VERSION, data)
        case 1:
            return parse_rest(ShareUpdateKey, _KEY_VERSION, data)
        case other:
            return other


def parse_share_value(key: ShareSnapshotKey | ShareUpdateKey, data: bytes) -> ShareSnapshotValue | ShareUpdateValue:
    """The value of a record of that key. Raises ProtocolError, also for a version this side does not know."""
    if isinstance(key, ShareSnapshotKey):
        return parse_versioned(ShareSnapshotValue, data)[1]
    return parse_versioned(ShareUpdateValue, data)[1]


def build_share_key(key: ShareSnapshotKey | ShareUpdateKey) -> bytes:
    """Raises BuildError when the group id does not fit."""
    type_ = 0 if isinstance(key, ShareSnapshotKey) else 1
    return INT16.pack(type_) + codec(type(key), _KEY_VERSION).build(key)


def build_share_value(value: ShareSnapshotValue | ShareUpdateValue) -> bytes:
    """Raises BuildError."""
    return INT16.pack(_VALUE_VERSION) + codec(type(value), _VALUE_VERSION).build(value)
