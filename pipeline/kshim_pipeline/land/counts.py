"""What was landed, counted by kind while it passes, so that no record version goes by unnoticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kshim_pipeline.records import KINDS
from kshim_pipeline.topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVATION: Final = "landed"
_READ_VERSIONS: Final = {0: (0,), 1: (0, 1, 2, 3, 4), 2: (0, 1, 2, 3, 4)}
"""Value versions that are decoded, by key type."""
_RECORDS: Final = "records"
_UNKNOWN: Final = "unknown"
_UNKNOWN_NAMES: Final = "unknown_names"


def observed(records: DataFrame) -> DataFrame:
    """The same records; Spark counts them by kind for each micro-batch, under OBSERVATION."""
    is_offsets = F.col("topic") == OFFSETS_TOPIC
    key_type, version = _int16("key"), _int16("value")
    is_known = F.lit(False)
    for type_, versions in _READ_VERSIONS.items():
        is_known |= (key_type == type_) & (F.col("value").isNull() | version.isin(*versions))
    for type_ in KINDS:
        if type_ not in _READ_VERSIONS:
            is_known |= key_type == type_
    is_unknown = is_offsets & ~F.coalesce(is_known, F.lit(False))
    unknown_name = F.concat(
        F.lit("key type "),
        F.coalesce(key_type.cast("string"), F.lit("none")),
        F.when(key_type.isin(*_READ_VERSIONS), F.concat(F.lit(" value version "), version.cast("string"))).otherwise(
            ""
        ),
    )
    counts = [F.count(F.when(is_offsets & (key_type == type_), 1)).alias(str(type_)) for type_ in KINDS]
    return records.observe(
        OBSERVATION,
        F.count(F.lit(1)).alias(_RECORDS),
        F.count(F.when(is_unknown, 1)).alias(_UNKNOWN),
        F.collect_set(F.when(is_unknown, unknown_name)).alias(_UNKNOWN_NAMES),
        *counts,
    )


def _int16(column: str) -> Column:
    """The number that the first two bytes are; null where there are not so many."""
    number = F.conv(F.hex(F.substring(column, 1, 2)), 16, 10).cast("int")
    return F.when(F.length(column) >= 2, F.when(number >= 1 << 15, number - (1 << 16)).otherwise(number))


class Counts:
    """Counts over all micro-batches of a run."""

    def __init__(self) -> None:
        self.records = 0
        self.by_kind: Counter[str] = Counter()
        self.unknown = 0
        self.unknown_names: set[str] = set()
        self.offsets = 0
        self.batches = 0
        self._newest = -1

    def add(self, batch: int, metrics: Mapping[str, Any], offsets: int) -> None:
        """Take a micro-batch in, once, however often it is told. `offsets`: how many it went over."""
        if batch <= self._newest:
            return
        self._newest = batch
        self.batches += 1
        self.offsets += offsets
        self.records += metrics[_RECORDS]
        for type_, kind in KINDS.items():
            if metrics[str(type_)]:
                self.by_kind[kind] += metrics[str(type_)]
        self.unknown += metrics[_UNKNOWN]
        self.unknown_names.update(metrics[_UNKNOWN_NAMES])

    def sentences(self) -> list[str]:
        """What to tell the user."""
        told = [f"{self.records} records"]
        if self.by_kind:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.most_common())
            told.append(f"{OFFSETS_TOPIC}: {kinds}")
        if self.unknown:
            told.append(
                f"{self.unknown} records are of a type or version that is not known here "
                f"({', '.join(sorted(self.unknown_names))}); they were landed with the others"
            )
        if self.offsets > self.records:
            told.append(
                f"{self.offsets - self.records} of {self.offsets} offsets held no record: erased by compaction before this "
                "run, or markers and records of transactions that were not committed"
            )
        return told
