"""AlterConfigs: replace the configuration of resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int16, int32, message, string, struct

# fmt: off


@struct
class AlterableConfig(Struct):
    """One entry."""

    name:  str        = string("0+")
    value: str | None = string("0+", nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """One resource with its entries."""

    resource_type: int                         = int8("0+")
    resource_name: str                         = string("0+")
    configs:       tuple[AlterableConfig, ...] = array(AlterableConfig, "0+")


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """Replace all entries of each resource (KIP-133); IncrementalAlterConfigs is its successor. v2 flexible."""

    resources:     tuple[AlterConfigsResource, ...] = array(AlterConfigsResource, "0+")
    validate_only: bool                             = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=refused(self.resources, error, message))


@struct
class AlterConfigsResourceResponse(Struct):
    """The result of one resource."""

    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int        = int8("0+")
    resource_name: str        = string("0+")


def refused(resources: Iterable[Any], error: ErrorCode, message: str | None) -> tuple[AlterConfigsResourceResponse, ...]:
    """The result of each resource of a request that failed as a whole."""
    return tuple(
        AlterConfigsResourceResponse(
            error_code=error,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    )


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Struct):
    """One result a resource. v2 flexible."""

    throttle_time_ms: int                                      = int32("0+", default=0)
    responses:        tuple[AlterConfigsResourceResponse, ...] = array(AlterConfigsResourceResponse, "0+")

# fmt: on
