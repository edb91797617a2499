"""DescribeConfigs: effective configuration of topics, brokers and groups."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int16, int32, message, string, struct

# fmt: off


@struct
class DescribeConfigsResource(Struct):
    """One resource to describe."""

    resource_type:      int                    = int8("1+")                            # 2 topic, 4 broker, 32 group
    resource_name:      str                    = string("1+")
    configuration_keys: tuple[str, ...] | None = array("string", "1+", nullable="1+")  # null: all


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """Ask for configuration entries (KIP-133).

    v1 synonyms (KIP-226). v3 types and documentation (KIP-569). v4 flexible.
    """

    resources:             tuple[DescribeConfigsResource, ...] = array(DescribeConfigsResource, "1+")
    include_synonyms:      bool                                = boolean("1+", default=False)
    include_documentation: bool                                = boolean("3+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=error,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=(),
                )
                for resource in self.resources
            )
        )


@struct
class DescribeConfigsSynonym(Struct):
    """Another source of the same entry, strongest first."""

    name:   str        = string("1+")
    value:  str | None = string("1+", nullable="1+")
    source: int        = int8("1+")


@struct
class DescribeConfigsResourceResult(Struct):
    """One configuration entry."""

    name:          str                                = string("1+")
    value:         str | None                         = string("1+", nullable="1+")                              # null when sensitive
    read_only:     bool                               = boolean("1+")
    config_source: int                                = int8("1+", default=-1, ignorable=True)                   # 1 topic, 4 static broker, 5 default, ...
    is_sensitive:  bool                               = boolean("1+")
    synonyms:      tuple[DescribeConfigsSynonym, ...] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type:   int                                = int8("3+", default=0, ignorable=True)
    documentation: str | None                         = string("3+", nullable="1+", default="", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """One resource."""

    error_code:    int                                       = int16("1+")
    error_message: str | None                                = string("1+", nullable="1+")
    resource_type: int                                       = int8("1+")
    resource_name: str                                       = string("1+")
    configs:       tuple[DescribeConfigsResourceResult, ...] = array(DescribeConfigsResourceResult, "1+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Struct):
    """One result a resource. v2 throttles after the reply. v3 type, documentation. v4 flexible."""

    throttle_time_ms: int                               = int32("1+", default=0)
    results:          tuple[DescribeConfigsResult, ...] = array(DescribeConfigsResult, "1+")

# fmt: on
