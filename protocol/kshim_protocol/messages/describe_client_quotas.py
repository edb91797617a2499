"""DescribeClientQuotas: quotas of users and clients."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, float64, int8, int16, int32, message, string, struct

# fmt: off


@struct
class ComponentData(Struct):
    """One part of the filter."""

    entity_type: str        = string("0+")
    match_type:  int        = int8("0+")                   # 0 exact, 1 default, 2 any
    match:       str | None = string("0+", nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """Ask for quotas (KIP-546). v1 flexible."""

    components: tuple[ComponentData, ...] = array(ComponentData, "0+")
    strict:     bool                      = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> DescribeClientQuotasResponse:
        return DescribeClientQuotasResponse(error_code=error, error_message=message, entries=None)


@struct
class EntityData(Struct):
    """One part of an entity."""

    entity_type: str        = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


@struct
class ValueData(Struct):
    """One quota."""

    key:   str   = string("0+")
    value: float = float64("0+")


@struct
class EntryData(Struct):
    """One entity with its quotas."""

    entity: tuple[EntityData, ...] = array(EntityData, "0+")
    values: tuple[ValueData, ...]  = array(ValueData, "0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Struct):
    """The quotas that match. v1 flexible."""

    throttle_time_ms: int                          = int32("0+", default=0)
    error_code:       int                          = int16("0+")
    error_message:    str | None                   = string("0+", nullable="0+")
    entries:          tuple[EntryData, ...] | None = array(EntryData, "0+", nullable="0+")

# fmt: on
