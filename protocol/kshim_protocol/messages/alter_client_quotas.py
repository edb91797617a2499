"""AlterClientQuotas: set and remove quotas of users and clients."""

from __future__ import annotations

from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Request, Struct, array, boolean, float64, int16, int32, message, string, struct

# fmt: off


@struct
class EntityData(Struct):
    """One part of an entity."""

    entity_type: str        = string("0+")
    entity_name: str | None = string("0+", nullable="0+")  # null: the default


@struct
class OpData(Struct):
    """One quota to set or remove."""

    key:    str   = string("0+")
    value:  float = float64("0+")
    remove: bool  = boolean("0+")


@struct
class EntryData(Struct):
    """One entity with its changes."""

    entity: tuple[EntityData, ...] = array(EntityData, "0+")
    ops:    tuple[OpData, ...]     = array(OpData, "0+")


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """Change quotas (KIP-546). v1 flexible."""

    entries:       tuple[EntryData, ...] = array(EntryData, "0+")
    validate_only: bool                  = boolean("0+")

    def error_response(self, error: ErrorCode, version: int, message: str | None = None) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(
            entries=tuple(
                EntryDataResult(error_code=error, error_message=message, entity=entry.entity) for entry in self.entries
            )
        )


@struct
class EntryDataResult(Struct):
    """The result of one entity."""

    error_code:    int                    = int16("0+")
    error_message: str | None             = string("0+", nullable="0+")
    entity:        tuple[EntityData, ...] = array(EntityData, "0+")


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Struct):
    """One result an entity. v1 flexible."""

    throttle_time_ms: int                         = int32("0+", default=0)
    entries:          tuple[EntryDataResult, ...] = array(EntryDataResult, "0+")

# fmt: on
