"""DeleteAcls: remove access rules."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@struct
class DeleteAclsFilter(Struct):
    """One filter."""

    resource_type_filter: int        = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter:  int        = int8("1+", default=3)
    principal_filter:     str | None = string("0+", nullable="0+")
    host_filter:          str | None = string("0+", nullable="0+")
    operation:            int        = int8("0+")
    permission_type:      int        = int8("0+")


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """Remove the rules that match filters (KIP-140). v1 pattern types (KIP-290). v2 flexible. v3 user resources (KIP-48)."""

    filters: tuple[DeleteAclsFilter, ...] = array(DeleteAclsFilter, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DeleteAclsResponse:
        return DeleteAclsResponse(
            filter_results=tuple(
                DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=()) for _ in self.filters
            )
        )


@struct
class DeleteAclsMatchingAcl(Struct):
    """One rule that matched."""

    error_code:      int        = int16("0+")
    error_message:   str | None = string("0+", nullable="0+")
    resource_type:   int        = int8("0+")
    resource_name:   str        = string("0+")
    pattern_type:    int        = int8("1+", default=3)
    principal:       str        = string("0+")
    host:            str        = string("0+")
    operation:       int        = int8("0+")
    permission_type: int        = int8("0+")


@struct
class DeleteAclsFilterResult(Struct):
    """The result of one filter."""

    error_code:    int                               = int16("0+")
    error_message: str | None                        = string("0+", nullable="0+")
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = array(DeleteAclsMatchingAcl, "0+")


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Struct):
    """One result a filter, with the rules that went. v1 pattern types. v2 flexible."""

    throttle_time_ms: int                                = int32("0+", default=0)
    filter_results:   tuple[DeleteAclsFilterResult, ...] = array(DeleteAclsFilterResult, "0+")

# fmt: on
