"""DescribeConfigs: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int8, message, string, struct

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]

# fmt: off


@struct
class DescribeConfigsResource(Struct):
    """Part of DescribeConfigsRequest."""

    resource_type:      int                    = int8("1+")
    resource_name:      str                    = string("1+")
    configuration_keys: tuple[str, ...] | None = array("string", "1+", nullable="1+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """@@DOC DescribeConfigsRequest@@"""

    resources:             tuple[DescribeConfigsResource, ...] = array(DescribeConfigsResource, "1+")
    include_synonyms:      bool                                = boolean("1+", default=False)
    include_documentation: bool                                = boolean("3+", default=False)


@struct
class DescribeConfigsSynonym(Struct):
    """Part of DescribeConfigsResponse."""

    name:   str        = string("1+")
    value:  str | None = string("1+", nullable="1+")
    source: int        = int8("1+")


@struct
class DescribeConfigsResourceResult(Struct):
    """Part of DescribeConfigsResponse."""

    name:          str                                = string("1+")
    value:         str | None                         = string("1+", nullable="1+")
    read_only:     bool                               = boolean("1+")
    config_source: int                                = int8("1+", default=-1, ignorable=True)
    is_sensitive:  bool                               = boolean("1+")
    synonyms:      tuple[DescribeConfigsSynonym, ...] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type:   int                                = int8("3+", default=0, ignorable=True)
    documentation: str | None                         = string("3+", nullable="1+", default="", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """Part of DescribeConfigsResponse."""

    error_code:    int                                       = int16("1+")
    error_message: str | None                                = string("1+", nullable="1+")
    resource_type: int                                       = int8("1+")
    resource_name: str                                       = string("1+")
    configs:       tuple[DescribeConfigsResourceResult, ...] = array(DescribeConfigsResourceResult, "1+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Struct):
    """@@DOC DescribeConfigsResponse@@"""

    throttle_time_ms: int                               = int32("1+", default=0)
    results:          tuple[DescribeConfigsResult, ...] = array(DescribeConfigsResult, "1+")

# fmt: on
