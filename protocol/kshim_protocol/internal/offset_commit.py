"""`__consumer_offsets` records of committed offsets: key types 0 and 1."""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Struct, int32, int64, message, string, uuid

__all__ = [
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
]

# fmt: off


@message(versions="0", flexible="none")
class LegacyOffsetCommitKey(Struct):
    """@@DOC LegacyOffsetCommitKey@@"""

    group:     str = string("0+")
    topic:     str = string("0+")
    partition: int = int32("0+")


@message(versions="0", flexible="none")
class LegacyOffsetCommitValue(Struct):
    """@@DOC LegacyOffsetCommitValue@@"""

    offset:           int = int64("0+")
    metadata:         str = string("0+")
    commit_timestamp: int = int64("0+")


@message(versions="0", flexible="none")
class OffsetCommitKey(Struct):
    """@@DOC OffsetCommitKey@@"""

    group:     str = string("0+")
    topic:     str = string("0+")
    partition: int = int32("0+")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Struct):
    """@@DOC OffsetCommitValue@@"""

    offset:           int   = int64("0+")
    leader_epoch:     int   = int32("3+", default=-1, ignorable=True)
    metadata:         str   = string("0+")
    commit_timestamp: int   = int64("0+")
    expire_timestamp: int   = int64("1", default=-1, ignorable=True)
    topic_id:         bytes = uuid("4+", default=ZERO_UUID, ignorable=True, tag=0)

# fmt: on
