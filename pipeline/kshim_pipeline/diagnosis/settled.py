"""One definition decides: what analyses measured, without what contradicts an incident of the same time and member.

Analyses count departures, and cannot tell a process that stood still from one that was started again; the diagnosis can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_OF_TIMEOUTS: Final = (
    "crash_loop",
    "killed",
    "restart",
    "flapping",
    "static_restart",
    "static_stopped",
    "duplicate_instance",
    "host_stalled",
    "network_cut",
)
"""Members were lost for a reason that no timeout changes."""


def settled(findings: DataFrame, incidents: DataFrame) -> DataFrame:
    """Rows of FINDINGS from analyses that agree with the table INCIDENTS.

    A crash loop of a client is left out where an incident names the client, or its host, in that group and time. Advice on
    timeouts is left out for groups that lost members to something else, and advice to shorten max.poll.interval.ms where
    polls were too slow for it. A storm of a group that has incidents is a measure without advice.
    """
    told = incidents.select(
        F.explode("groups").alias("_group"),
        F.col("cause").alias("_cause"),
        F.col("clients").alias("_clients"),
        F.col("host").alias("_host"),
        F.col("from_ms").alias("_from_ms"),
        F.col("to_ms").alias("_to_ms"),
    )
    is_same = (
        (F.col("analysis") == "crash_loops")
        & (F.col("group_id") == F.col("_group"))
        & (F.col("_from_ms") <= F.col("to_ts_ms"))
        & (F.col("_to_ms") >= F.col("from_ts_ms"))
        & (
            F.array_contains("_clients", F.concat_ws("@", "member.client_id", "member.client_host"))
            | F.coalesce(F.col("_host") == F.col("member.client_host"), F.lit(False))
        )
    )
    causes = told.groupBy(F.col("_group").alias("_of")).agg(F.collect_set("_cause").alias("_causes"))
    rows = findings.join(told, is_same, "left_anti").join(causes, F.col("group_id") == F.col("_of"), "left")
    is_explained = F.arrays_overlap("_causes", F.array(*map(F.lit, _NOT_OF_TIMEOUTS)))
    is_slow = F.array_contains("_causes", "slow_poll") & (F.col("value") == 0)
    is_wrong = (F.col("analysis") == "timeouts") & F.coalesce(is_explained | is_slow, F.lit(False))
    has_cause = (F.col("analysis") == "storms") & F.col("_causes").isNotNull()
    return rows.where(~is_wrong).withColumn("advice", F.when(~has_cause, F.col("advice"))).select(*findings.columns)
