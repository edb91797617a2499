"""OffsetFetch: committed positions of one or (from v8) several groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    ZERO_UUID,
    Request,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    rows,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# fmt: off


@struct
class OffsetFetchRequestTopic(Struct):
    """One topic of the one group, v1-7."""

    name:              str             = string("1-7", default="")
    partition_indexes: tuple[int, ...] = array("int32", "1-7", default=())


@struct
class OffsetFetchRequestTopics(Struct):
    """One topic of a group, v8+: by name up to v9, by id from v10."""

    name:              str             = string("8-9", default="", ignorable=True)
    topic_id:          bytes           = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: tuple[int, ...] = array("int32", "8+", default=())


@struct
class OffsetFetchRequestGroup(Struct):
    """One group, v8+."""

    group_id:     str                                         = string("8+", default="")
    member_id:    str | None                                  = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int                                         = int32("9+", default=-1, ignorable=True)
    topics:       tuple[OffsetFetchRequestTopics, ...] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+", default=())  # null: all


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """Ask for committed offsets. Null topics (v2+): all of them.

    v6 flexible. v7 stable offsets only (KIP-447). v8 several groups (KIP-709): the rows of one group are gone.
    v9 member id and epoch (KIP-848). v10 topic ids instead of names.
    """

    group_id:       str                                        = string("1-7", default="")
    topics:         tuple[OffsetFetchRequestTopic, ...] | None = array(OffsetFetchRequestTopic, "1-7", nullable="2-7", default=())  # null: all
    groups:         tuple[OffsetFetchRequestGroup, ...]        = array(OffsetFetchRequestGroup, "8+", default=())
    require_stable: bool                                       = boolean("7+", default=False)                                       # no offset with an open transactional commit

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> OffsetFetchResponse:
        if version >= 8:
            return OffsetFetchResponse(
                groups=tuple(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error) for group in self.groups)
            )
        if version >= 2:
            return OffsetFetchResponse(error_code=error)
        return OffsetFetchResponse(
            topics=tuple(
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error)
                        for index in topic.partition_indexes
                    ),
                )
                for topic in self.topics or ()
            )
        )


@struct
class OffsetFetchResponsePartition(Struct):
    """One position, v1-7."""

    partition_index:        int        = int32("1-7", default=0)
    committed_offset:       int        = int64("1-7", default=0)                    # -1: none
    committed_leader_epoch: int        = int32("5-7", default=-1, ignorable=True)
    metadata:               str | None = string("1-7", nullable="1-7", default="")
    error_code:             int        = int16("1-7", default=0)


@struct
class OffsetFetchResponseTopic(Struct):
    """One topic, v1-7."""

    name:       str                                      = string("1-7", default="")
    partitions: Sequence[OffsetFetchResponsePartition]   = rows(OffsetFetchResponsePartition, "1-7", default=())


@struct
class OffsetFetchResponsePartitions(Struct):
    """One position, v8+."""

    partition_index:        int        = int32("8+", default=0)
    committed_offset:       int        = int64("8+", default=0)                   # -1: none
    committed_leader_epoch: int        = int32("8+", default=-1, ignorable=True)
    metadata:               str | None = string("8+", nullable="8+", default="")
    error_code:             int        = int16("8+", default=0)


@struct
class OffsetFetchResponseTopics(Struct):
    """One topic, v8+: by name up to v9, by id from v10."""

    name:       str                                       = string("8-9", default="", ignorable=True)
    topic_id:   bytes                                     = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions]   = rows(OffsetFetchResponsePartitions, "8+", default=())


@struct
class OffsetFetchResponseGroup(Struct):
    """One group, v8+."""

    group_id:   str                                   = string("8+", default="")
    topics:     tuple[OffsetFetchResponseTopics, ...] = array(OffsetFetchResponseTopics, "8+", default=())
    error_code: int                                   = int16("8+", default=0)


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Struct):
    """Committed offsets; -1 where there is none.

    v2 top-level error. v3 throttle time. v5 leader epoch (KIP-320). v6 flexible. v8 one entry a group (KIP-709).
    v10 topic ids instead of names (KIP-848).
    """

    throttle_time_ms: int                                  = int32("3+", default=0, ignorable=True)
    topics:           tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic, "1-7", default=())
    error_code:       int                                  = int16("2-7", default=0, ignorable=True)
    groups:           tuple[OffsetFetchResponseGroup, ...] = array(OffsetFetchResponseGroup, "8+", default=())

# fmt: on
