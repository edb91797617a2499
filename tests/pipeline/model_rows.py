"""Rows of the model's inputs, written in few words, and a way to compare whole rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, StructType

from kshim_pipeline.records import DECODED, KINDS, RECORDS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE: Final = "kafka:test"


def full(schema: StructType, **values: Any) -> tuple[Any, ...]:
    """A row of `schema`: what is not named is null; parts may be given as mappings."""
    unknown = values.keys() - set(schema.names)
    assert not unknown, unknown
    return tuple(_typed(field.dataType, values.get(field.name)) for field in schema.fields)


def _typed(kind: Any, value: Any) -> Any:
    if isinstance(kind, StructType) and isinstance(value, Mapping):
        return full(kind, **value)
    if isinstance(kind, ArrayType) and isinstance(value, Sequence):
        return [_typed(kind.elementType, item) for item in value]
    return value


def table(spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """A DataFrame of `schema` with `rows`; columns that must not be null may be left out of a test's rows."""
    loose = StructType([type(field)(field.name, field.dataType, True) for field in schema.fields])
    return spark.createDataFrame([full(loose, **row) for row in rows], loose)


def member(name: str, *partitions: int, **fields: Any) -> dict[str, Any]:
    """A member `name` that holds `partitions` of topic t. Client id and host are made of the first letter."""
    return {
        "member_id": name,
        "client_id": f"client-{name[0]}",
        "client_host": f"/host-{name[0]}",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "assignment": [{"topic": "t", "partitions": list(partitions)}] if partitions else None,
        **fields,
    }


def group_record(
    offset: int, ts_ms: int, generation_id: int, *members: Mapping[str, Any], **fields: Any
) -> dict[str, Any]:
    """A decoded group metadata record of group g; no members: Empty. Its first member leads."""
    return {
        "topic": OFFSETS_TOPIC,
        "partition": 7,
        "offset": offset,
        "timestamp_ms": ts_ms,
        "source": SOURCE,
        "kind": "group_metadata",
        "is_tombstone": False,
        "group_id": "g",
        "protocol_type": "consumer",
        "generation_id": generation_id,
        "protocol_name": "range" if members else None,
        "leader_id": members[0]["member_id"] if members else None,
        "state_timestamp_ms": ts_ms - 10,
        "members": list(members),
        **fields,
    }


def group_tombstone(offset: int, ts_ms: int, **fields: Any) -> dict[str, Any]:
    """That group g was deleted."""
    empty = dict.fromkeys(
        ("protocol_type", "generation_id", "protocol_name", "leader_id", "state_timestamp_ms", "members")
    )
    return group_record(offset, ts_ms, 0) | empty | {"is_tombstone": True} | fields


TOPIC_ID: Final = "0123456789abcdef" * 2


def epoch_record(offset: int, ts_ms: int, key_type: int, **fields: Any) -> dict[str, Any]:
    """A decoded record of group g of the new protocol; without other fields, a tombstone."""
    return {
        "topic": OFFSETS_TOPIC,
        "partition": 7,
        "offset": offset,
        "timestamp_ms": ts_ms,
        "source": SOURCE,
        "kind": KINDS[key_type],
        "key_type": key_type,
        "is_tombstone": not fields.keys() - {"member_id"},
        "group_id": "g",
        **fields,
    }


def group_epoch(offset: int, ts_ms: int, epoch: int, **fields: Any) -> dict[str, Any]:
    """The epoch rises."""
    return epoch_record(offset, ts_ms, 3, **{"epoch": epoch, "metadata_hash": 1, **fields})


def wish_of(name: str, *topics: str, **fields: Any) -> dict[str, Any]:
    """What a member `name` wants; without names, topic t. Client id and host are made of the first letter."""
    return {
        "group_instance_id": None,
        "client_id": f"client-{name[0]}",
        "client_host": f"/host-{name[0]}",
        "topics": list(topics or ("t",)),
        "topic_regex": "",
        "rebalance_timeout_ms": 300_000,
        **fields,
    }


def member_wish(offset: int, ts_ms: int, name: str, *topics: str, **fields: Any) -> dict[str, Any]:
    """A member, and what it wants."""
    return epoch_record(offset, ts_ms, 5, member_id=name, wish=wish_of(name, *topics, **fields))


def owned(*partitions: int) -> list[dict[str, Any]]:
    """Partitions of the topic whose id is TOPIC_ID."""
    return [{"topic_id": TOPIC_ID, "partitions": list(partitions), "epochs": []}] if partitions else []


def target(offset: int, ts_ms: int, epoch: int, **members: Sequence[int]) -> list[dict[str, Any]]:
    """A target of an epoch: what each member is to own, one record a member and one behind them."""
    parts = [
        epoch_record(offset + at, ts_ms, 7, member_id=name, owned=owned(*partitions))
        for at, (name, partitions) in enumerate(members.items())
    ]
    return [*parts, epoch_record(offset + len(parts), ts_ms, 6, epoch=epoch, computed_ms=ts_ms)]


def step(
    offset: int,
    ts_ms: int,
    name: str,
    epoch: int,
    partitions: Sequence[int],
    *,
    to_revoke: Sequence[int] = (),
    state: str = "",
) -> dict[str, Any]:
    """A member has `partitions` in its epoch, and is to give up others."""
    return epoch_record(
        offset,
        ts_ms,
        8,
        member_id=name,
        epoch=epoch,
        previous_epoch=epoch - 1,
        member_state=state or ("UnrevokedPartitions" if to_revoke else "Stable"),
        owned=owned(*partitions),
        to_revoke=owned(*to_revoke),
    )


def commit_record(offset: int, ts_ms: int, partition: int, committed: int | None, **fields: Any) -> dict[str, Any]:
    """A decoded commit of group g for partition of topic t; None: the offset was forgotten."""
    return {
        "topic": OFFSETS_TOPIC,
        "partition": 7,
        "offset": offset,
        "timestamp_ms": ts_ms,
        "source": SOURCE,
        "kind": "offset_commit",
        "is_tombstone": committed is None,
        "group_id": "g",
        "committed_topic": "t",
        "committed_partition": partition,
        "committed_offset": committed,
        "leader_epoch": None if committed is None else -1,
        "commit_timestamp_ms": None if committed is None else ts_ms,
        **fields,
    }


def decoded(spark: SparkSession, *rows: Mapping[str, Any]) -> DataFrame:
    return table(spark, DECODED, rows)


def event(offset: int, ts_ms: int, kind: str, **fields: Any) -> dict[str, Any]:
    """An event of group g as JSON would have it, with its place in the topic under `_offset`."""
    return {
        "v": 1,
        "event_id": f"run1-{offset}",
        "run": "run1",
        "seq": offset,
        "ts_ms": ts_ms,
        "mono_ms": ts_ms,
        "broker": 1,
        "group": "g",
        "protocol_type": "consumer",
        "epoch": 1,
        "from_generation": 1,
        "type": kind,
        "state_to": "Stable",
        "reason": "member_joined",
        "reason_text": "",
        "waits_omitted": 0,
        "kicked_omitted": 0,
        "_offset": offset,
        **fields,
    }


def event_records(spark: SparkSession, *rows: Mapping[str, Any]) -> DataFrame:
    """Records of `__kshim_events` that carry these events."""
    return table(
        spark,
        RECORDS,
        [
            {
                "topic": "__kshim_events",
                "partition": 0,
                "offset": row["_offset"],
                "timestamp_ms": 0,
                "key": b"g",
                "value": json.dumps({name: value for name, value in row.items() if not name.startswith("_")}).encode(),
                "source": SOURCE,
            }
            for row in rows
        ],
    )


def rows_of(frame: DataFrame, *columns: str, by: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Its rows, in the order of `by` (else of all columns), as plain tuples; structs are tuples, too."""
    chosen = frame.select(*columns) if columns else frame
    rows = [_plain(row) for row in chosen.collect()]
    names = chosen.columns
    places = [names.index(name) for name in by] or range(len(names))
    return sorted(
        rows, key=lambda row: [(row[i] is not None, row[i]) if row[i] is not None else (False,) for i in places]
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
