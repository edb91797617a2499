"""What is known of sessions, as rows of Spark: in columns what Spark itself looks at, and all of it as bytes that Python reads.

An Entry would have eighty columns, most of them empty, and to bring those from one step in Python to the next would take longer than
the diagnosis. The bytes are pickled: they live as long as a run, between workers that have the same code.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from kshim.explain.facts import Phases
from kshim_pipeline.diagnosis.facts import Entry

# fmt: off
ENTRIES: Final = StructType([
    StructField("group",           StringType()),
    StructField("session",         IntegerType()),
    StructField("is_before",       BooleanType()),
    StructField("session_ms",      IntegerType()),                # session.timeout.ms of the member; null: unknown
    StructField("ts_ms",           LongType()),                   # of the fact, as all that follows; null: a profile alone
    StructField("kind",            StringType()),
    StructField("source",          StringType()),
    StructField("is_observed",     BooleanType()),
    StructField("member_id",       StringType()),
    StructField("other_id",        StringType()),
    StructField("host",            StringType()),                 # of the member
    StructField("last_request_ms", LongType()),                   # of its process, where the broker says it
    StructField("join_ms",         LongType()),                   # of a rebalance, as the next three
    StructField("sync_ms",         LongType()),
    StructField("last_wait_ms",    LongType()),                   # how long the last to join let the others wait
    StructField("last_host",       StringType()),                 # where that one is
    StructField("packed",          BinaryType()),
])
"""One row an Entry."""
# fmt: on

_NO_PHASES: Final = Phases(None, None, None, None, None, None)


def entry_rows(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Rows of ENTRIES."""
    for entry in entries:
        row = {
            "group": entry.group,
            "session": entry.session,
            "is_before": entry.is_before,
            "session_ms": None if entry.profile is None else entry.profile.session_ms,
            "packed": packed(entry),
        }
        if (fact := entry.fact) is not None:
            phases = fact.phases or _NO_PHASES
            row |= {
                "ts_ms": fact.ts_ms,
                "kind": fact.kind.name,
                "source": fact.source,
                "is_observed": fact.is_observed,
                "member_id": None if fact.member is None else fact.member.member_id,
                "other_id": fact.other_id,
                "host": None if fact.member is None else fact.member.host,
                "last_request_ms": None if fact.activity is None else fact.activity.last_request_ms,
                "join_ms": phases.join_ms,
                "sync_ms": phases.sync_ms,
                "last_wait_ms": phases.last_wait_ms,
                "last_host": None if phases.last_to_join is None else phases.last_to_join.host,
            }
        yield row


def packed(value: object) -> bytes:
    """What `unpacked` reads."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpacked(rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """The values that were `packed` in the column of that name."""
    return (pickle.loads(row["packed"]) for row in rows)
