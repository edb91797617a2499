"""Landed records counted by kind as they are read, so that an unknown record version is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kshim_pipeline.records import KINDS, SHARE_STATE_KINDS
from kshim_pipeline.topics import EVENT_VERSIONS, EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

_READ_VERSIONS: Final = {0: (0,), 1: (0, 1, 2, 3, 4), 2: (0, 1, 2, 3, 4)}
"""Value versions that are decoded, by key type."""
_RECORDS: Final = "records"
_UNKNOWN: Final = "unknown"
_UNKNOWN_NAMES: Final = "unknown_names"
_KEY_TYPE: Final = "counted_key_type"
_VERSION: Final = "counted_version"
_UNKNOWN_NAME: Final = "counted_unknown_name"


def observed(records: DataFrame, counting: Observation) -> DataFrame:
    """The same records; Spark counts them by kind when they are computed, for `Counts.add`."""
    with_types = records.withColumns({_KEY_TYPE: _int16("key"), _VERSION: _int16("value")})
    # What is counted is in columns of its own first: each expression is planned, and evaluated, as often as it is named.
    with_names = with_types.withColumn(_UNKNOWN_NAME, _unknown_name())
    of_offsets = F.when(F.col("topic") == OFFSETS_TOPIC, F.col(_KEY_TYPE))
    return (
        with_names.withColumn(_KEY_TYPE, of_offsets)
        .observe(
            counting,
            F.count(F.lit(1)).alias(_RECORDS),
            F.count(_UNKNOWN_NAME).alias(_UNKNOWN),
            # As a text: an observation gives Python no arrays.
            F.array_join(F.collect_set(_UNKNOWN_NAME), "\n").alias(_UNKNOWN_NAMES),
            *(F.count_if(F.col(_KEY_TYPE) == type_).alias(str(type_)) for type_ in KINDS),
        )
        .select(*records.columns)
    )


def _unknown_name() -> Column:
    """What a record is that nothing here can read, by its topic and types; null: it is known, or of another topic."""
    topic, key_type, version = F.col("topic"), F.col(_KEY_TYPE), F.col(_VERSION)
    is_known = key_type.isin(*KINDS.keys() - _READ_VERSIONS.keys())
    for type_, versions in _READ_VERSIONS.items():
        is_known |= (key_type == type_) & (F.col("value").isNull() | version.isin(*versions))
    event_version = F.coalesce(F.get_json_object(F.col("value").cast("string"), "$.v"), F.lit("none"))
    name = F.concat(F.lit("key type "), F.coalesce(key_type.cast("string"), F.lit("none")))
    has_versions = key_type.isin(*_READ_VERSIONS)
    version_name = F.coalesce(version.cast("string"), F.lit("none"))
    of_offsets = F.when(has_versions, F.concat(name, F.lit(" value version "), version_name)).otherwise(name)
    return (
        F.when((topic == OFFSETS_TOPIC) & ~F.coalesce(is_known, F.lit(False)), of_offsets)
        .when(
            (topic == SHARE_STATE_TOPIC) & ~F.coalesce(key_type.isin(*SHARE_STATE_KINDS), F.lit(False)),
            F.concat(name, F.lit(f" of {SHARE_STATE_TOPIC}")),
        )
        .when(
            (topic == EVENTS_TOPIC) & ~event_version.isin(*map(str, EVENT_VERSIONS)),
            F.concat(F.lit("event version "), event_version),
        )
    )


def _int16(column: str) -> Column:
    """The number in the first two bytes; null if there are fewer."""
    number = F.conv(F.hex(F.substring(column, 1, 2)), 16, 10).cast("int")
    return F.when(F.length(column) >= 2, F.when(number >= 1 << 15, number - (1 << 16)).otherwise(number))


class Counts:
    """Counts over all batches of a run."""

    def __init__(self) -> None:
        self.records = 0
        self.by_kind: Counter[str] = Counter()
        self.unknown = 0
        self.unknown_names: set[str] = set()
        self.offsets = 0
        self.batches = 0
        self.compacted = 0

    def add(self, metrics: Mapping[str, Any], offsets: int) -> int:
        """Add what was counted of a batch, and how many offsets it covered. Returns how many records they are."""
        self.batches += 1
        self.offsets += offsets
        self.records += metrics[_RECORDS]
        for type_, kind in KINDS.items():
            if metrics[str(type_)]:
                self.by_kind[kind] += metrics[str(type_)]
        self.unknown += metrics[_UNKNOWN]
        self.unknown_names.update((metrics[_UNKNOWN_NAMES] or "").split("\n") if metrics[_UNKNOWN] else ())
        return int(metrics[_RECORDS])

    def sentences(self) -> list[str]:
        """A summary for the user."""
        lines = [f"{self.records} records"]
        if self.by_kind:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.most_common())
            lines.append(f"{OFFSETS_TOPIC}: {kinds}")
        if self.unknown:
            lines.append(
                f"{self.unknown} records have an unknown type or version "
                f"({', '.join(sorted(self.unknown_names))}); they were landed too"
            )
        if self.offsets > self.records:
            lines.append(
                f"{self.offsets - self.records} of {self.offsets} offsets had no record: removed by compaction before this "
                "run, or control records and records of uncommitted transactions"
            )
        if self.compacted:
            lines.append(
                f"{self.compacted} files of earlier batches were written again, together or with decoded columns"
            )
        return lines
