"""DescribeGroups: state and members of classic groups."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, bytes_, int16, int32, message, string, struct

# fmt: off


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """Ask about groups.

    v3 authorized operations on request (KIP-430). v5 flexible. v6 has an error for unknown groups (KIP-1043).
    """

    groups:                        tuple[str, ...] = array("string", "0+")
    include_authorized_operations: bool            = boolean("3+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=tuple(
                DescribedGroup(
                    error_code=error,
                    error_message=message if version >= 6 else None,
                    group_id=group_id,
                    group_state="",
                    protocol_type="",
                    protocol_data="",
                    members=(),
                )
                for group_id in self.groups
            )
        )


@struct
class DescribedGroupMember(Struct):
    """One member."""

    member_id:         str        = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id:         str        = string("0+")
    client_host:       str        = string("0+")                                               # "/127.0.0.1"
    member_metadata:   bytes      = bytes_("0+")                                               # only in Stable
    member_assignment: bytes      = bytes_("0+")


@struct
class DescribedGroup(Struct):
    """One group."""

    error_code:            int                              = int16("0+")
    error_message:         str | None                       = string("6+", nullable="6+", default=None)
    group_id:              str                              = string("0+")
    group_state:           str                              = string("0+")                               # as Kafka prints it: "Stable"
    protocol_type:         str                              = string("0+")
    protocol_data:         str                              = string("0+")                               # assignor name, only in Stable
    members:               tuple[DescribedGroupMember, ...] = array(DescribedGroupMember, "0+")
    authorized_operations: int                              = int32("3+", default=-2147483648)           # bit field; the lowest int32: not asked for


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Struct):
    """One entry a group asked for.

    v1 throttle time. v3 authorized operations (KIP-430). v4 group instance id (KIP-345). v5 flexible.
    v6 error message, GROUP_ID_NOT_FOUND (KIP-1043); below, an unknown group is a `Dead` one without error.
    """

    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    groups:           tuple[DescribedGroup, ...] = array(DescribedGroup, "0+")

# fmt: on
