"""A part of a history: what happened in a time, and of what was before only what is needed to understand that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AROUND_MS: Final = 3_600_000
"""So much is read before and after, for what happens at its edges."""
_COMMITS_BEFORE_MS: Final = 86_400_000
"""So long before that the last commit of a partition is looked for: records of groups are few, commits are not."""
_PLACE: Final = ("partition", "offset")


class Window(NamedTuple):
    """From `since_ms` on, up to `until_ms` but without it, in ms since 1970; None: from the first record on, to the last."""

    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether it leaves nothing out."""
        return self.since_ms is None and self.until_ms is None

    @property
    def read_since_ms(self) -> int | None:
        """From when on all is read for it, which is a while before; None: from the first record on."""
        return None if self.since_ms is None else self.since_ms - AROUND_MS

    def has(self, other: Window) -> bool:
        """Whether it has a time with another one in common, which has both ends."""
        return (other.until_ms or 0) > (self.since_ms or 0) and (
            self.until_ms is None or (other.since_ms or 0) < self.until_ms
        )

    def read(self, rows: DataFrame, at: str) -> DataFrame:
        """The rows that are read for it: those whose time, the column `at`, lies in it or an hour before or after."""
        if self.read_since_ms is not None:
            rows = rows.where(F.col(at) >= self.read_since_ms)
        if self.until_ms is not None:
            rows = rows.where(F.col(at) < self.until_ms + AROUND_MS)
        return rows

    def records(self, decoded: DataFrame) -> DataFrame:
        """The same of `decoded` (columns of DECODED), and what was true before: the last record of each key.

        So would Kafka's cleaner have left it; tombstones it would have removed in the end. Of commits only those of a day are
        looked at. What was true before is cached.
        """
        if self.read_since_ms is None:
            return self.read(decoded, "timestamp_ms")
        before = decoded.where(F.col("timestamp_ms") < self.read_since_ms)
        is_commit = F.col("kind") == "offset_commit"
        of_a_day = is_commit & (F.col("timestamp_ms") >= self.read_since_ms - _COMMITS_BEFORE_MS)
        subject = F.coalesce("member_id", "topic_regex")
        states = _last(before.where(~is_commit & F.col("group_id").isNotNull()), F.col("key_type"), subject)
        commits = _last(before.where(of_a_day), F.col("committed_topic"), F.col("committed_partition"))
        return self.read(decoded, "timestamp_ms").unionByName(states.unionByName(commits).cache())

    def touched(self, rows: DataFrame, began: str, ended: str | None = None) -> DataFrame:
        """The rows of results that are of it, by the columns of when they began and ended; a time that is null counts."""
        if self.since_ms is not None:
            rows = rows.where(_or_unknown(F.col(ended or began) >= self.since_ms))
        if self.until_ms is not None:
            rows = rows.where(_or_unknown(F.col(began) < self.until_ms))
        return rows


def _last(before: DataFrame, *key: Column) -> DataFrame:
    """The last record of each group and `key`, unless it is a tombstone."""
    newest = before.groupBy("group_id", *key).agg(F.max(F.struct(*_PLACE)).alias("newest")).select("newest.*")
    return before.where("not is_tombstone").join(newest, list(_PLACE), "left_semi")


def _or_unknown(holds: Column) -> Column:
    return F.coalesce(holds, F.lit(True))
