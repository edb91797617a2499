"""The tables of the diagnosis, and their rows as the objects that rules use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kshim_pipeline.diagnosis.causes import Diagnosed
from kshim_pipeline.diagnosis.signals import Evidence, Kind, Member, Signal, Snapshot
from kshim_pipeline.schemas import EVIDENCE, INFERRED, OBSERVED

# fmt: off
SIGNALS: Final = StructType([
    StructField("group_id",      StringType(),  nullable=False),
    StructField("ts_ms",         LongType(),    nullable=False),  # ms since 1970
    StructField("kind",          StringType(),  nullable=False),  # of facts.Kind
    StructField("member_id",     StringType()),
    StructField("instance_id",   StringType()),
    StructField("client_id",     StringType()),
    StructField("host",          StringType()),
    StructField("client_reason", StringType()),                   # the client's reason (KIP-800)
    StructField("other_id",      StringType()),                   # of a static member that came back: its id before
    StructField("state",         StringType()),                   # of the group, just before
    StructField("wait_ms",       LongType()),
    StructField("is_new",        BooleanType(), nullable=False),
    StructField("stall",         StringType()),                   # host that fell silent as a whole
    StructField("is_observed",   BooleanType(), nullable=False),
    StructField("evidence",      EVIDENCE),
])
"""Things that happened to groups; see facts.Signal."""

MEMBERS: Final = StructType([
    StructField("group_id",             StringType(), nullable=False),
    StructField("number",               IntegerType(), nullable=False),  # of the snapshot, in the group
    StructField("ts_ms",                LongType(), nullable=False),
    StructField("next_ts_ms",           LongType()),                     # of the next snapshot; null: none yet
    StructField("generation_id",        IntegerType()),
    StructField("leader_id",            StringType()),
    StructField("protocol",             StringType()),
    StructField("joined_ms",            LongType()),                     # end of the JOIN phase; null: unknown
    StructField("evidence",             EVIDENCE),
    StructField("member_id",            StringType()),                   # null: the group is empty
    StructField("instance_id",          StringType()),
    StructField("client_id",            StringType()),
    StructField("host",                 StringType()),
    StructField("session_timeout_ms",   IntegerType()),
    StructField("rebalance_timeout_ms", IntegerType()),
    StructField("topics",               ArrayType(StringType())),
    StructField("partitions",           IntegerType()),
    StructField("last_partitions",      ArrayType(StructType([          # of each topic, the last that it was assigned
        StructField("topic",            StringType()),
        StructField("partition",        IntegerType()),
    ]))),
    StructField("last_commit_ms",       LongType()),                     # before the next snapshot; null: none
])
"""A member in a snapshot of its group; a snapshot without members is a row without a member."""

DIAGNOSED: Final = StructType([
    StructField("group_id",    StringType(),             nullable=False),
    StructField("from_ms",     LongType(),               nullable=False),
    StructField("to_ms",       LongType(),               nullable=False),
    StructField("quiet_ms",    LongType(),               nullable=False),  # what comes so soon after may belong to it
    StructField("cause",       StringType(),             nullable=False),
    StructField("subject",     StringType(),             nullable=False),
    StructField("clients",     ArrayType(StringType()),  nullable=False),
    StructField("host",        StringType()),
    StructField("member_ids",  ArrayType(StringType()),  nullable=False),
    StructField("confidence",  StringType(),             nullable=False),
    StructField("sentence",    StringType(),             nullable=False),
    StructField("basis",       StringType(),             nullable=False),
    StructField("evidence",    ArrayType(EVIDENCE),      nullable=False),
])
"""Incidents of single groups; see causes.Diagnosed."""
# fmt: on


def signal_of(row: Mapping[str, Any]) -> Signal:
    """A row of SIGNALS for the rules."""
    fields = {name: row[name] for name in SIGNALS.names if name != "group_id"}
    return Signal(**{**fields, "kind": Kind(row["kind"]), "evidence": _evidence(row["evidence"])})


def signal_row(group_id: str, signal: Signal) -> dict[str, Any]:
    """A signal as a row of SIGNALS."""
    place = signal.evidence
    return {
        **signal._asdict(),
        "group_id": group_id,
        "kind": signal.kind.value,
        "evidence": None if place is None else place._asdict(),
    }


def snapshots_of(rows: Iterable[Mapping[str, Any]]) -> list[Snapshot]:
    """Rows of MEMBERS of one group, in any order, as its snapshots in order."""
    ordered = sorted(rows, key=lambda row: row["number"])
    return [_snapshot(list(rows_of_one)) for _, rows_of_one in groupby(ordered, key=lambda row: row["number"])]


def diagnosed_row(group_id: str, found: Diagnosed) -> dict[str, Any]:
    """A row of DIAGNOSED."""
    row: dict[str, Any] = found._asdict()
    row["group_id"] = group_id
    row["cause"], row["subject"], row["confidence"] = str(found.cause), str(found.subject), str(found.confidence)
    row["basis"] = OBSERVED if row.pop("is_observed") else INFERRED
    row["evidence"] = [place._asdict() for place in found.evidence]
    row["clients"], row["member_ids"] = list(found.clients), list(found.member_ids)
    return row


def _snapshot(rows: list[Mapping[str, Any]]) -> Snapshot:
    first = rows[0]
    return Snapshot(
        ts_ms=first["ts_ms"],
        generation_id=first["generation_id"],
        leader_id=first["leader_id"],
        protocol=first["protocol"],
        members=tuple(_member(row) for row in rows if row["member_id"] is not None),
        joined_ms=first["joined_ms"],
        evidence=_evidence(first["evidence"]),
    )


def _member(row: Mapping[str, Any]) -> Member:
    fields = {name: row[name] for name in Member._fields}
    return Member(**{**fields, "topics": tuple(row["topics"] or ())})


def _evidence(row: Mapping[str, Any] | None) -> Evidence | None:
    return None if row is None else Evidence(row["topic"], row["partition"], row["offset"])
