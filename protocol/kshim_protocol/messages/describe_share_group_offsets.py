"""DescribeShareGroupOffsets: where share groups are in their partitions (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int16, int32, int64, message, string, struct, uuid

# fmt: off


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group."""

    group_id: str                                                      = string("0+")
    topics:   tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = array(DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+")   # null: all


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """Ask about groups. v1 equals v0."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = array(DescribeShareGroupOffsetsRequestGroup, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeShareGroupOffsetsResponse:
        return DescribeShareGroupOffsetsResponse(
            groups=tuple(
                DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.group_id, topics=(), error_code=error, error_message=message
                )
                for group in self.groups
            )
        )


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    """One partition."""

    partition_index: int        = int32("0+")
    start_offset:    int        = int64("0+")
    leader_epoch:    int        = int32("0+")
    lag:             int        = int64("1+", default=-1, ignorable=True)     # -1: not known
    error_code:      int        = int16("0+")
    error_message:   str | None = string("0+", nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    """One topic."""

    topic_name: str                                                    = string("0+")
    topic_id:   bytes                                                  = uuid("0+")
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = array(DescribeShareGroupOffsetsResponsePartition, "0+")


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group."""

    group_id:      str                                                = string("0+")
    topics:        tuple[DescribeShareGroupOffsetsResponseTopic, ...] = array(DescribeShareGroupOffsetsResponseTopic, "0+")
    error_code:    int                                                = int16("0+")
    error_message: str | None                                         = string("0+", nullable="0+", default=None)


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Struct):
    """Start offsets, by group. v1 lag (KIP-1226)."""

    throttle_time_ms: int                                                = int32("0+", default=0)
    groups:           tuple[DescribeShareGroupOffsetsResponseGroup, ...] = array(DescribeShareGroupOffsetsResponseGroup, "0+")

# fmt: on
