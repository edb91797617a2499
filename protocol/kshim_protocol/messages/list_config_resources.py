"""ListConfigResources: resources that have a configuration."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, int8, int16, int32, message, string, struct

# fmt: off


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """Ask which resources have entries (KIP-1142, once ListClientMetricsResources). v1 types."""

    resource_types: tuple[int, ...] = array("int8", "1+", default=())  # empty: all

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ListConfigResourcesResponse:
        return ListConfigResourcesResponse(error_code=error, config_resources=())


@struct
class ConfigResource(Struct):
    """One resource."""

    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16, ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Struct):
    """The resources. v1 types."""

    throttle_time_ms: int                        = int32("0+", default=0)
    error_code:       int                        = int16("0+")
    config_resources: tuple[ConfigResource, ...] = array(ConfigResource, "0+")

# fmt: on
