"""ApiVersions: @@MODDOC@@"""

from __future__ import annotations

from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int64, message, string, struct

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]

# fmt: off


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """@@DOC ApiVersionsRequest@@"""

    client_software_name:    str        = string("3+", default="", ignorable=True)
    client_software_version: str        = string("3+", default="", ignorable=True)
    cluster_id:              str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id:                 int        = int32("5+", default=-1, ignorable=True)


@struct
class ApiVersion(Struct):
    """Part of ApiVersionsResponse."""

    api_key:     int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


@struct
class SupportedFeatureKey(Struct):
    """Part of ApiVersionsResponse."""

    name:        str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


@struct
class FinalizedFeatureKey(Struct):
    """Part of ApiVersionsResponse."""

    name:              str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Struct):
    """@@DOC ApiVersionsResponse@@"""

    error_code:               int                             = int16("0+")
    api_keys:                 tuple[ApiVersion, ...]          = array(ApiVersion, "0+")
    throttle_time_ms:         int                             = int32("1+", default=0, ignorable=True)
    supported_features:       tuple[SupportedFeatureKey, ...] = array(SupportedFeatureKey, "3+", default=(), ignorable=True, tag=0)
    finalized_features_epoch: int                             = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features:       tuple[FinalizedFeatureKey, ...] = array(FinalizedFeatureKey, "3+", default=(), ignorable=True, tag=2)
    zk_migration_ready:       bool                            = boolean("3+", default=False, ignorable=True, tag=3)

# fmt: on
