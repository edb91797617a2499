"""ConsumerGroupDescribe: epochs and members of groups of the new protocol (KIP-848)."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import (
    Request,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    struct_,
    uuid,
)

# fmt: off


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """Ask about groups. v1 equals v0."""

    group_ids:                     tuple[str, ...] = array("string", "0+")
    include_authorized_operations: bool            = boolean("0+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(
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
    """What a member owns, or is to own."""

    topic_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, "0+")


@struct
class Member(Struct):
    """One member."""

    member_id:              str             = string("0+")
    instance_id:            str | None      = string("0+", nullable="0+", default=None)
    rack_id:                str | None      = string("0+", nullable="0+", default=None)
    member_epoch:           int             = int32("0+")
    client_id:              str             = string("0+")
    client_host:            str             = string("0+")                                # "/127.0.0.1"
    subscribed_topic_names: tuple[str, ...] = array("string", "0+")
    subscribed_topic_regex: str | None      = string("0+", nullable="0+", default=None)
    assignment:             Assignment      = struct_(Assignment, "0+")
    target_assignment:      Assignment      = struct_(Assignment, "0+")
    member_type:            int             = int8("1+", default=-1, ignorable=True)      # 0: classic; 1: consumer; -1: unknown


@struct
class DescribedGroup(Struct):
    """One group."""

    error_code:            int                = int16("0+")
    error_message:         str | None         = string("0+", nullable="0+", default=None)
    group_id:              str                = string("0+")
    group_state:           str                = string("0+")                              # as Kafka prints it: "Reconciling"
    group_epoch:           int                = int32("0+")
    assignment_epoch:      int                = int32("0+")
    assignor_name:         str                = string("0+")
    members:               tuple[Member, ...] = array(Member, "0+")
    authorized_operations: int                = int32("0+", default=-2147483648)          # bit field; the lowest int32: not asked for


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Struct):
    """One entry a group asked for. v1 member type (KIP-1099)."""

    throttle_time_ms: int                        = int32("0+", default=0)
    groups:           tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")

# fmt: on
