"""A request of a recording as its client would have sent it to another broker: with the ids that one gave it."""

from __future__ import annotations

from copy import copy
from struct import Struct as Packing
from typing import Any, Final

from kshim.replay.compare import ID_FIELDS, Ids
from kshim.replay.messages import Asked
from kshim_protocol.records.crc import crc32c
from kshim_protocol.records.layout import HEADER_BYTES, PRODUCER_ID_AT, offset_of
from kshim_protocol.schema import Struct

_PRODUCER_ID: Final = Packing(">q")
_CRC: Final = Packing(">I")
_CRC_AT: Final = offset_of("crc")
_GENERATIONS: Final = ("generation_id", "generation_id_or_member_epoch")
_REQUEST_IDS: Final = ID_FIELDS.keys() - {"leader", "node_id", "leader_id", "current_leader_id", "broker_id"}


def translated(asked: Asked, ids: Ids) -> Asked:
    """The request with the ids of the replay, and the generation that the member got in it."""
    return asked._replace(body=_struct(asked.body, ids, getattr(asked.body, "group_id", "")))


def _struct(struct: Struct, ids: Ids, group_id: str) -> Any:
    changed = copy(struct)
    for row in struct.info.rows:
        name, value = row.name, getattr(struct, row.name)
        if name in _REQUEST_IDS:
            setattr(changed, name, ids.replayed(ID_FIELDS[name], value))
        elif name in _GENERATIONS:
            setattr(changed, name, ids.generation(group_id, getattr(struct, "member_id", ""), value))
        elif name == "records" and isinstance(value, bytes):
            setattr(changed, name, _with_producer(value, ids))
        elif isinstance(value, Struct):
            setattr(changed, name, _struct(value, ids, group_id))
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            setattr(changed, name, tuple(_struct(element, ids, group_id) for element in value))
    return changed


def _with_producer(batch: bytes, ids: Ids) -> bytes:
    """A batch of a Produce request with the producer id of the replay."""
    if len(batch) < HEADER_BYTES:
        return batch
    (producer_id,) = _PRODUCER_ID.unpack_from(batch, PRODUCER_ID_AT)
    replayed = ids.replayed("producer", producer_id)
    if replayed == producer_id:
        return batch
    changed = bytearray(batch)
    _PRODUCER_ID.pack_into(changed, PRODUCER_ID_AT, replayed)
    _CRC.pack_into(changed, _CRC_AT, crc32c(bytes(changed[_CRC_AT + 4 :])))
    return bytes(changed)
