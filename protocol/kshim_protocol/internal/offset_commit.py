"""`__consumer_offsets` records of committed offsets: key types 0 and 1."""

from __future__ import annotations

from kshim_protocol.schema import ZERO_UUID, Struct, int32, int64, message, string, uuid

# fmt: off


@message(versions="0", flexible="none")
class LegacyOffsetCommitKey(Struct):
    """Record key of type 0: no longer written, still read."""

    group:     str = string("0+")
    topic:     str = string("0+")
    partition: int = int32("0+")


@message(versions="0", flexible="none")
class LegacyOffsetCommitValue(Struct):
    """Value to keys of type 0."""

    offset:           int = int64("0+")
    metadata:         str = string("0+")
    commit_timestamp: int = int64("0+")   # ms since the epoch


@message(versions="0", flexible="none")
class OffsetCommitKey(Struct):
    """Record key of type 1."""

    group:     str = string("0+")
    topic:     str = string("0+")
    partition: int = int32("0+")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Struct):
    """A committed offset. Kafka 4.4 writes v4, or v1 when the client asked for its own retention.

    v1 has the expire timestamp, and alone has it. v2 dropped it. v3 leader epoch. v4 flexible, topic id.
    """

    offset:           int   = int64("0+")
    leader_epoch:     int   = int32("3+", default=-1, ignorable=True)               # -1: none
    metadata:         str   = string("0+")
    commit_timestamp: int   = int64("0+")                                           # ms since the epoch
    expire_timestamp: int   = int64("1", default=-1, ignorable=True)                # ms since the epoch; -1: none
    topic_id:         bytes = uuid("4+", default=ZERO_UUID, ignorable=True, tag=0)

# fmt: on
