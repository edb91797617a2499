"""DescribeAcls: access rules."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """Ask for the rules that match a filter (KIP-140). v1 pattern types (KIP-290). v2 flexible. v3 user resources (KIP-48)."""

    resource_type_filter: int        = int8("0+")                   # 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter:  int        = int8("1+", default=3)        # 1 any, 2 match, 3 literal, 4 prefixed
    principal_filter:     str | None = string("0+", nullable="0+")
    host_filter:          str | None = string("0+", nullable="0+")
    operation:            int        = int8("0+")
    permission_type:      int        = int8("0+")                   # 1 any, 2 deny, 3 allow

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeAclsResponse:
        return DescribeAclsResponse(error_code=error, error_message=message, resources=())


@struct
class AclDescription(Struct):
    """One rule."""

    principal:       str = string("0+")
    host:            str = string("0+")
    operation:       int = int8("0+")
    permission_type: int = int8("0+")


@struct
class DescribeAclsResource(Struct):
    """One resource with its rules."""

    resource_type: int                        = int8("0+")
    resource_name: str                        = string("0+")
    pattern_type:  int                        = int8("1+", default=3)
    acls:          tuple[AclDescription, ...] = array(AclDescription, "0+")


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Struct):
    """The rules by resource. v1 pattern types. v2 flexible."""

    throttle_time_ms: int                              = int32("0+", default=0)
    error_code:       int                              = int16("0+")
    error_message:    str | None                       = string("0+", nullable="0+")
    resources:        tuple[DescribeAclsResource, ...] = array(DescribeAclsResource, "0+")

# fmt: on
