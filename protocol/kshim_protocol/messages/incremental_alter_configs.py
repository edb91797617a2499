"""IncrementalAlterConfigs: change single configuration entries."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_configs import AlterConfigsResourceResponse, refused
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int32, message, string, struct

# fmt: off


@struct
class AlterableConfig(Struct):
    """One entry."""

    name:             str        = string("0+")
    config_operation: int        = int8("0+")                   # 0 set, 1 delete, 2 append, 3 subtract
    value:            str | None = string("0+", nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """One resource with its changes."""

    resource_type: int                         = int8("0+")                    # 2 topic, 4 broker, 32 group
    resource_name: str                         = string("0+")
    configs:       tuple[AlterableConfig, ...] = array(AlterableConfig, "0+")


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """Set, delete, append to or subtract from entries (KIP-339). v1 flexible."""

    resources:     tuple[AlterConfigsResource, ...] = array(AlterConfigsResource, "0+")
    validate_only: bool                             = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=refused(self.resources, error, message))


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Struct):
    """One result a resource. v1 flexible."""

    throttle_time_ms: int                                      = int32("0+", default=0)
    responses:        tuple[AlterConfigsResourceResponse, ...] = array(AlterConfigsResourceResponse, "0+")

# fmt: on
