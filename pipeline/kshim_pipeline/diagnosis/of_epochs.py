"""Incidents of groups of the new protocol: what `kshim.explain` says of them, in the columns of other incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kshim_pipeline.diagnosis.incidents import INCIDENTS, incidents
from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet
from kshim_pipeline.materialize import Materialize
from kshim_pipeline.model.shape import shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HIGH: Final = 0.8
_MEDIUM: Final = 0.5


def incidents_of_both(
    decoded: DataFrame, events: DataFrame | None, log_lines: DataFrame | None, *, materialize: Materialize
) -> DataFrame:
    """The table INCIDENTS: of classic groups by rules, and of groups that have had the new protocol by `kshim.explain`.

    A probability is `high` from 0.8, `medium` from 0.5.
    """
    groups = _groups_of_epochs(decoded, events)
    if groups.isEmpty():
        return incidents(decoded, events, log_lines, materialize=materialize)
    groups = materialize("groups of epochs", groups)

    def of(rows: DataFrame, column: str, kind: str) -> DataFrame:
        return rows.join(F.broadcast(groups.withColumnRenamed("group_id", column)), column, kind).select(rows.columns)

    def parts(kind: str) -> tuple[DataFrame, DataFrame | None, DataFrame | None]:
        told = None if events is None else of(events, "group", kind)
        lines = None if log_lines is None else of(log_lines, "group_id", kind)
        return of(decoded, "group_id", kind), told, lines

    classic = incidents(*parts("left_anti"), materialize=materialize)
    own = [
        materialize(f"{name} of epochs", rows)
        for name, rows in zip(("decoded", "events"), parts("left_semi"), strict=False)
        if rows is not None
    ]
    found = incidents_of_fleet(*own, materialize=materialize)
    confidence = (
        F.when(F.col("confidence") >= _HIGH, "high").when(F.col("confidence") >= _MEDIUM, "medium").otherwise("low")
    )
    return classic.unionByName(shaped(found.withColumn("confidence", confidence), INCIDENTS))


def _groups_of_epochs(decoded: DataFrame, events: DataFrame | None) -> DataFrame:
    groups = decoded.where("key_type in (3, 5, 6, 7, 8) and group_id is not null").select("group_id")
    if events is not None:
        groups = groups.unionByName(events.where("group_type = 'consumer'").select(F.col("group").alias("group_id")))
    return groups.distinct()
