"""CreateAcls: new access rules."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@struct
class AclCreation(Struct):
    """One rule."""

    resource_type:         int = int8("0+")
    resource_name:         str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal:             str = string("0+")
    host:                  str = string("0+")
    operation:             int = int8("0+")
    permission_type:       int = int8("0+")


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Request["CreateAclsResponse"]):
    """Add rules (KIP-140). v1 pattern types (KIP-290). v2 flexible. v3 user resources (KIP-48)."""

    creations: tuple[AclCreation, ...] = array(AclCreation, "0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> CreateAclsResponse:
        return CreateAclsResponse(
            results=tuple(AclCreationResult(error_code=error, error_message=message) for _ in self.creations)
        )


@struct
class AclCreationResult(Struct):
    """The result of one rule."""

    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Struct):
    """One result a rule. v2 flexible."""

    throttle_time_ms: int                           = int32("0+", default=0)
    results:          tuple[AclCreationResult, ...] = array(AclCreationResult, "0+")

# fmt: on
