"""1. Why did a group rebalance at a time, and which member triggered it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import awaited, finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def why(rebalances: DataFrame) -> DataFrame:
    """One row a rebalance of the table rebalances, with its root cause.

    Rebalances that supersede each other are one chain; the reason of the first is the root of all. Columns: `group_id`,
    `ts_ms` (ms since 1970), `from_generation`, `to_generation`, `outcome`, `reason`, `reason_text`, `trigger`;
    `root_reason`, `root_trigger`, `root_ts_ms` (ms since 1970); `attempt`, place in the chain from 1; `came`, `went`,
    `kicked` (members); `total_ms` (ms); `waited_for`: the member that joined last, or gave up partitions last (new
    protocol), unless it was new; `explanation`, a
    sentence; `basis`, `evidence`.
    """
    order = Window.partitionBy("group_id").orderBy("ts_ms", F.coalesce("to_generation", "from_generation"))
    root = F.struct("reason", "trigger", "ts_ms", "_n")
    begins = F.coalesce(F.lag("outcome").over(order) != "superseded", F.lit(True))
    numbered = rebalances.withColumn("_begins", begins).withColumn("_n", F.row_number().over(order))
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = numbered.withColumn("_root", F.last(F.when(F.col("_begins"), root), ignorenulls=True).over(so_far))
    last = awaited()
    waited = F.when(~F.coalesce(last["is_new"], F.lit(False)), last)
    return numbered.select(
        "group_id",
        "ts_ms",
        "from_generation",
        "to_generation",
        "outcome",
        "reason",
        "reason_text",
        "trigger",
        F.col("_root.reason").alias("root_reason"),
        F.col("_root.trigger").alias("root_trigger"),
        F.col("_root.ts_ms").alias("root_ts_ms"),
        (F.col("_n") - F.col("_root._n") + 1).alias("attempt"),
        "came",
        "went",
        "kicked",
        "total_ms",
        waited.alias("waited_for"),
        _explanation().alias("explanation"),
        "basis",
        "evidence",
    )


def _explanation() -> Column:
    who = F.col("_root.trigger")
    trigger = F.coalesce(who["group_instance_id"], who["member_id"])
    by = F.when(
        who.isNotNull(),
        sentence(
            " by {trigger} (client {client_id} on {client_host})",
            trigger=trigger,
            client_id=who["client_id"],
            client_host=who["client_host"],
        ),
    )
    took = F.when(F.col("total_ms").isNotNull(), sentence(", took {total_ms:seconds} s"))
    last = F.when(
        ~F.coalesce(awaited()["is_new"], F.lit(False)) & (awaited()["wait_ms"] > 0),
        sentence(
            ", waited {wait:seconds} s for {member}",
            wait=awaited()["wait_ms"],
            member=awaited()["member_id"],
        ),
    )
    parts = (F.coalesce(part, F.lit("")) for part in (by, took, last))
    return F.concat(F.col("_root.reason"), *parts)


def findings(rows: DataFrame, *, min_rebalances: int = 5) -> DataFrame:
    """One finding a group with at least `min_rebalances`: the most frequent reason and its client."""
    keys = ("root_reason", "root_trigger.client_id", "root_trigger.client_host")
    counted = rows.groupBy("group_id", "basis", *(F.col(key).alias(key.replace(".", "_")) for key in keys)).agg(
        F.count("*").alias("n"),
        F.min("ts_ms").alias("from_ts_ms"),
        F.max("ts_ms").alias("to_ts_ms"),
        F.min(packed()).alias("first"),
        F.max(packed()).alias("last"),
    )
    top = F.max_by(
        F.struct("root_reason", "root_trigger_client_id", "root_trigger_client_host", "n", "first", "last"),
        F.struct("n", "root_reason", "root_trigger_client_id", "root_trigger_client_host"),
    )
    groups = (
        counted.groupBy("group_id", "basis")
        .agg(
            F.sum("n").alias("total"),
            F.min("from_ts_ms").alias("from_ts_ms"),
            F.max("to_ts_ms").alias("to_ts_ms"),
            top.alias("top"),
        )
        .where(F.col("total") >= min_rebalances)
        .select("group_id", "basis", "total", "from_ts_ms", "to_ts_ms", "top.*")
    )
    return finding(
        groups,
        analysis="why",
        severity="info",
        member=F.when(
            F.col("root_trigger_client_id").isNotNull(), member("root_trigger_client_id", "root_trigger_client_host")
        ),
        cause=F.col("root_reason"),
        sentence=sentence(
            "Group {group_id} rebalanced {total} times; {share:percent} % were triggered by {root_reason} of client "
            "{root_trigger_client_id} on {root_trigger_client_host}.",
            share=F.col("n") / F.col("total"),
        ),
        value=F.col("total"),
        unit="rebalances",
    )
