"""DescribeLogDirs: sizes of the logs on disk."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int64, message, string, struct

# fmt: off


@struct
class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic:      str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Ask for the log directories (KIP-113). v2 flexible. v3 a top-level error. v4 volume sizes (KIP-827). v5 cordoned (KIP-1066)."""

    topics: tuple[DescribableLogDirTopic, ...] | None = array(DescribableLogDirTopic, "0+", nullable="0+")  # null: all

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(error_code=error, results=())


@struct
class DescribeLogDirsPartition(Struct):
    """One partition."""

    partition_index: int  = int32("0+")
    partition_size:  int  = int64("0+")    # bytes
    offset_lag:      int  = int64("0+")
    is_future_key:   bool = boolean("0+")


@struct
class DescribeLogDirsTopic(Struct):
    """Partitions of one topic."""

    name:       str                                  = string("0+")
    partitions: tuple[DescribeLogDirsPartition, ...] = array(DescribeLogDirsPartition, "0+")


@struct
class DescribeLogDirsResult(Struct):
    """One directory."""

    error_code:   int                              = int16("0+")
    log_dir:      str                              = string("0+")
    topics:       tuple[DescribeLogDirsTopic, ...] = array(DescribeLogDirsTopic, "0+")
    total_bytes:  int                              = int64("4+", default=-1, ignorable=True)
    usable_bytes: int                              = int64("4+", default=-1, ignorable=True)
    is_cordoned:  bool                             = boolean("5+", default=False, ignorable=True)


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Struct):
    """One result a directory. v2 flexible. v3 a top-level error. v4 volume sizes. v5 cordoned."""

    throttle_time_ms: int                               = int32("0+", default=0)
    error_code:       int                               = int16("3+", default=0, ignorable=True)
    results:          tuple[DescribeLogDirsResult, ...] = array(DescribeLogDirsResult, "0+")

# fmt: on
