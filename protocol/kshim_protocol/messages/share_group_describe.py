"""ShareGroupDescribe: epochs and members of share groups (KIP-932)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, message, string, struct, struct_, uuid

# fmt: off


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """Ask about groups."""

    group_ids:                     tuple[str, ...] = array("string", "0+")
    include_authorized_operations: bool            = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ShareGroupDescribeResponse:
        return ShareGroupDescribeResponse(
            groups=tuple(
                DescribedGroup(
                    error_code=error,
                    error_message=message,
                    group_id=group_id,
                    group_state="",
                    group_epoch=0,
                    assignment_epoch=0,
                    assignor_name="",
                    members=(),
                )
                for group_id in self.group_ids
            )
        )


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id:   bytes           = uuid("0+")
    topic_name: str             = string("0+")
    partitions: tuple[int, ...] = array("int32", "0+")


@struct
class Assignment(Struct):
    """All that a member may read."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@struct
class Member(Struct):
    """One member."""

    member_id:              str             = string("0+")
    rack_id:                str | None      = string("0+", nullable="0+", default=None)
    member_epoch:           int             = int32("0+")
    client_id:              str             = string("0+")
    client_host:            str             = string("0+")                                # "/127.0.0.1"
    subscribed_topic_names: tuple[str, ...] = array("string", "0+")
    assignment:             Assignment      = struct_(Assignment, "0+")


@struct
class DescribedGroup(Struct):
    """One group."""

    error_code:            int                = int16("0+")
    error_message:         str | None         = string("0+", nullable="0+", default=None)
    group_id:              str                = string("0+")
    group_state:           str                = string("0+")
    group_epoch:           int                = int32("0+")
    assignment_epoch:      int                = int32("0+")
    assignor_name:         str                = string("0+")
    members:               tuple[Member, ...] = array(Member, "0+")
    authorized_operations: int                = int32("0+", default=-2147483648)            # bit field; the lowest int32: not asked for


@message(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Struct):
    """One entry a group asked for."""

    throttle_time_ms: int                        = int32("0+", default=0)
    groups:           tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")

# fmt: on
