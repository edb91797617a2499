"""Records of `__share_group_state`, decoded one at a time: what a share coordinator keeps of each share partition (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kshim_pipeline.decode.types import schema_of
from kshim_pipeline.records import KIND_UNKNOWN, KIND_UNREADABLE, RECORDS, SHARE_STATE_KINDS
from kshim_pipeline.schemas import SHARE_STATE
from kshim_pipeline.topics import SHARE_STATE_TOPIC
from kshim_protocol.frame import ProtocolError
from kshim_protocol.internal.share_state import ShareSnapshotValue, ShareUpdateValue
from kshim_protocol.internal.share_state_records import parse_share_key, parse_share_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CARRIED: Final = ("partition", "offset", "timestamp_ms", "source")
_WITHOUT_TOPIC: Final = StructType([field for field in SHARE_STATE.fields if field.name != "topic"])
_SCHEMA: Final = schema_of(_WITHOUT_TOPIC)


def decode_share_state(records: DataFrame) -> DataFrame:
    """The records of `__share_group_state` among `records` (columns of RECORDS), as SHARE_STATE."""
    of_topic = records.where(F.col("topic") == SHARE_STATE_TOPIC)
    columns = [name for name in RECORDS.names if name != "topic"]
    decoded = of_topic.select(*columns).mapInArrow(_decoded, _WITHOUT_TOPIC)
    return decoded.select(F.lit(SHARE_STATE_TOPIC).alias("topic"), *_WITHOUT_TOPIC.names)


def decode_share_row(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """The columns of SHARE_STATE in a record; columns that are missing are null."""
    found: dict[str, Any] = {"is_tombstone": value is None}
    try:
        return _read(found, b"" if key is None else key, value)
    except ProtocolError as error:
        return found | {"kind": KIND_UNREADABLE, "problem": str(error)}


def _read(found: dict[str, Any], key_bytes: bytes, value_bytes: bytes | None) -> dict[str, Any]:
    """`found` with all columns; what was found before a ProtocolError stays in it."""
    key = parse_share_key(key_bytes)
    if isinstance(key, int):
        return found | {"kind": KIND_UNKNOWN, "key_type": key}
    key_type = int.from_bytes(key_bytes[:2])
    found |= {
        "kind": SHARE_STATE_KINDS[key_type],
        "key_type": key_type,
        "group_id": key.group_id,
        "shared_topic_id": key.topic_id.hex(),
        "shared_partition": key.partition,
    }
    return found if value_bytes is None else found | _columns(parse_share_value(key, value_bytes))


def _columns(value: ShareSnapshotValue | ShareUpdateValue) -> dict[str, Any]:
    columns = {
        "snapshot_epoch": value.snapshot_epoch,
        "leader_epoch": value.leader_epoch,
        "start_offset": value.start_offset,
        "delivery_complete_count": value.delivery_complete_count,
        "batches": [
            {
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "delivery_state": batch.delivery_state,
                "delivery_count": batch.delivery_count,
            }
            for batch in value.state_batches
        ],
    }
    if isinstance(value, ShareSnapshotValue):
        columns |= {
            "state_epoch": value.state_epoch,
            "created_ms": value.create_timestamp,
            "written_ms": value.write_timestamp,
        }
    return columns


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
        rows = [decode_share_row(key, value) for key, value in zip(keys, values, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [
                batch.column(field.name).cast(field.type)
                if field.name in _CARRIED
                else pa.array([row.get(field.name) for row in rows], type=field.type)
                for field in _SCHEMA
            ],
            schema=_SCHEMA,
        )
