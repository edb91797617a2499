"""ApiVersions: which APIs and versions the broker speaks; the first request of every client."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int16, int32, int64, message, string, struct

# fmt: off


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Ask for the supported versions.

    v3 names the client software (KIP-511), flexible. v4 lets feature minimums be 0. v5 checks cluster and node id
    (KIP-1242). The request header follows the version, the response header is always v0.
    """

    client_software_name:    str        = string("3+", default="", ignorable=True)
    client_software_version: str        = string("3+", default="", ignorable=True)
    cluster_id:              str | None = string("5+", nullable="5+", default=None, ignorable=True)  # null: not checked
    node_id:                 int        = int32("5+", default=-1, ignorable=True)                    # -1: not checked

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> ApiVersionsResponse:
        listed = (ApiVersion(api_key=18, min_version=0, max_version=5),) if error is ErrorCode.UNSUPPORTED_VERSION else ()
        return ApiVersionsResponse(error_code=error, api_keys=listed)


@struct
class ApiVersion(Struct):
    """One API and the versions of it that the broker takes."""

    api_key:     int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


@struct
class SupportedFeatureKey(Struct):
    """A feature and the levels this broker can run."""

    name:        str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


@struct
class FinalizedFeatureKey(Struct):
    """A feature and the levels the cluster has settled on."""

    name:              str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Struct):
    """The APIs with their version ranges, and (tagged) the cluster's features.

    v1 throttle time. v3 flexible, features (KIP-584). v4 shows features whose minimum is 0. v5 REBOOTSTRAP_REQUIRED
    (KIP-1242). An unknown version is answered with UNSUPPORTED_VERSION in the format of v0.
    """

    error_code:               int                             = int16("0+")
    api_keys:                 tuple[ApiVersion, ...]          = array(ApiVersion, "0+")
    throttle_time_ms:         int                             = int32("1+", default=0, ignorable=True)
    supported_features:       tuple[SupportedFeatureKey, ...] = array(SupportedFeatureKey, "3+", default=(), ignorable=True, tag=0)
    finalized_features_epoch: int                             = int64("3+", default=-1, ignorable=True, tag=1)                       # -1: unknown
    finalized_features:       tuple[FinalizedFeatureKey, ...] = array(FinalizedFeatureKey, "3+", default=(), ignorable=True, tag=2)
    zk_migration_ready:       bool                            = boolean("3+", default=False, ignorable=True, tag=3)

# fmt: on
