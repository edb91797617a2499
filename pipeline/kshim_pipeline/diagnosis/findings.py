"""Incidents as findings, beside those of the analyses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.diagnosis.severity import CRITICAL, HARMLESS
from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import FINDINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def findings_of(incidents: DataFrame) -> DataFrame:
    """Rows of INCIDENTS as rows of FINDINGS."""
    severity = (
        F.when(F.col("cause").isin(*CRITICAL), "critical")
        .when(F.col("cause").isin(*HARMLESS), "info")
        .otherwise("warning")
    )
    is_one = F.size("clients") == 1
    client = F.col("clients")[0]
    has_host = F.size(F.split(client, "@")) > 1
    member = F.struct(
        F.when(is_one, F.col("member_ids")[0]).alias("member_id"),
        F.when(is_one & ~has_host, client).alias("group_instance_id"),
        F.when(is_one & has_host, F.regexp_extract(client, "^(.*)@", 1)).alias("client_id"),
        F.col("host").alias("client_host"),
    )
    return shaped(
        incidents.withColumns(
            {
                "analysis": F.lit("diagnosis"),
                "severity": severity,
                "group_id": F.when(F.size("groups") == 1, F.col("groups")[0]),
                "member": F.when(is_one | F.col("host").isNotNull(), member),
                "from_ts_ms": F.col("from_ms"),
                "to_ts_ms": F.col("to_ms"),
                "sentence": F.concat(F.array_join("groups", ", "), F.lit(": "), F.col("sentence")),
                "value": (F.col("to_ms") - F.col("from_ms")) / 1000.0,
                "unit": F.lit("s"),
            }
        ),
        FINDINGS,
    )
