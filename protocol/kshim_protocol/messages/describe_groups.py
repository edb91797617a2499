"""DescribeGroups: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, bytes_, int16, int32, message, string, struct

__all__ = [
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
]

# fmt: off


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """@@DOC DescribeGroupsRequest@@"""

    groups:                        tuple[str, ...] = array("string", "0+")
    include_authorized_operations: bool            = boolean("3+", default=False)


@struct
class DescribedGroupMember(Struct):
    """Part of DescribeGroupsResponse."""

    member_id:         str        = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id:         str        = string("0+")
    client_host:       str        = string("0+")
    member_metadata:   bytes      = bytes_("0+")
    member_assignment: bytes      = bytes_("0+")


@struct
class DescribedGroup(Struct):
    """Part of DescribeGroupsResponse."""

    error_code:            int                              = int16("0+")
    error_message:         str | None                       = string("6+", nullable="6+", default=None)
    group_id:              str                              = string("0+")
    group_state:           str                              = string("0+")
    protocol_type:         str                              = string("0+")
    protocol_data:         str                              = string("0+")
    members:               tuple[DescribedGroupMember, ...] = array(DescribedGroupMember, "0+")
    authorized_operations: int                              = int32("3+", default=-2147483648)


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Struct):
    """@@DOC DescribeGroupsResponse@@"""

    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    groups:           tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")

# fmt: on
