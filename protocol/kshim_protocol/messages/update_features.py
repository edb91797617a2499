"""UpdateFeatures: raise or lower the level of a feature of the cluster."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, int8, int16, int32, message, string, struct

# fmt: off


@struct
class FeatureUpdateKey(Struct):
    """A feature and the level it is to have."""

    feature:           str  = string("0+")
    max_version_level: int  = int16("0+")                       # below 1: the feature is removed
    allow_downgrade:   bool = boolean("0", default=False)
    upgrade_type:      int  = int8("1+", default=1)             # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """Change levels (KIP-584). v1 the type of the change and a dry run (KIP-778). v2 as v1."""

    timeout_ms:      int                          = int32("0+", default=60000)
    feature_updates: tuple[FeatureUpdateKey, ...] = array(FeatureUpdateKey, "0+")
    validate_only:   bool                         = boolean("1+", default=False)

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error, error_message=message, results=())


@struct
class UpdatableFeatureResult(Struct):
    """The result of one feature."""

    feature:       str        = string("0+")
    error_code:    int        = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Struct):
    """One error for all. v0 and v1 repeat it for each feature."""

    throttle_time_ms: int                                = int32("0+", default=0)
    error_code:       int                                = int16("0+")
    error_message:    str | None                         = string("0+", nullable="0+")
    results:          tuple[UpdatableFeatureResult, ...] = array(UpdatableFeatureResult, "0-1", default=(), ignorable=True)

# fmt: on
