"""Records and events -> the table migrations: groups that went over from one protocol to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.model.epochs import part
from kshim_pipeline.model.generations import SAME_MS
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import MIGRATIONS, OBSERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def migrations(epochs: DataFrame, events: DataFrame | None) -> DataFrame:
    """The table migrations, from `epochs` (of `kshim_pipeline.model.epochs`) and the table events.

    Events say that a group went over; who made it do so is in the records.
    """
    of_records = shaped(part(epochs, "migration"), MIGRATIONS)
    if events is None:
        return of_records
    to_type = F.when(F.col("reason") == "group_upgraded", "consumer").otherwise("classic")
    from_type = F.when(F.col("reason") == "group_upgraded", "classic").otherwise("consumer")
    told = events.where("type = 'group_converted'").select(
        F.col("group").alias("group_id"),
        "ts_ms",
        from_type.alias("from_type"),
        to_type.alias("to_type"),
        F.col("to_generation").alias("generation_id"),
        F.lit(OBSERVED).alias("basis"),
        "evidence",
    )
    e, r = shaped(told, MIGRATIONS).alias("e"), of_records.alias("r")
    same = F.abs(F.col("e.ts_ms") - F.col("r.ts_ms")) <= SAME_MS
    for name in ("group_id", "to_type", "generation_id"):
        same &= F.col(f"e.{name}") == F.col(f"r.{name}")
    return e.join(r, same, "full_outer").select(
        *(F.coalesce(f"e.{name}", f"r.{name}").alias(name) for name in MIGRATIONS.names)
    )
