"""13. Which groups went over from one protocol to the other, and how long did it take?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def migrations(migrations: DataFrame, rebalances: DataFrame, *, within_ms: int = 3_600_000) -> DataFrame:
    """One row a migration: a group that went over to the new protocol, or back.

    Columns: `group_id`, `ts_ms` (ms since 1970), `from_type`, `to_type`, `generation_id`, `members`; `trigger`: the first
    member of the new protocol, or the last; `settled_ms` (ms): until the first rebalance since then was completed, null: none
    was within `within_ms`; `basis`; `first`: packed evidence.
    """
    ends = rebalances.where("outcome = 'completed'").select(
        "group_id", F.coalesce("started_ts_ms", "ts_ms").alias("_from"), F.col("ended_ts_ms").alias("_to")
    )
    rows = migrations.withColumn("first", packed()).drop("evidence")
    after = (F.col("_from") >= F.col("ts_ms")) & (F.col("_from") - F.col("ts_ms") <= within_ms)
    joined = rows.join(ends, "group_id", "left").withColumn("_settled", F.when(after, F.col("_to") - F.col("ts_ms")))
    columns = ("group_id", "ts_ms", "from_type", "to_type", "generation_id", "members", "trigger", "basis", "first")
    settled = joined.groupBy("group_id", "ts_ms", "to_type").agg(
        *(F.first(name).alias(name) for name in columns if name not in ("group_id", "ts_ms", "to_type")),
        F.min("_settled").alias("settled_ms"),
    )
    return settled.select(*columns[:7], "settled_ms", *columns[7:])


def findings(rows: DataFrame) -> DataFrame:
    """One finding a migration."""
    upgraded = F.col("to_type") == "consumer"
    who = F.when(
        F.col("trigger").isNotNull(),
        sentence(
            " when client {client_id} on {client_host} {verb}",
            client_id=F.col("trigger.client_id"),
            client_host=F.col("trigger.client_host"),
            verb=F.when(upgraded, "joined with it").otherwise("was the last with it to leave"),
        ),
    ).otherwise("")
    settled = F.when(
        F.col("settled_ms").isNotNull(), sentence("; {settled_ms:seconds} s later it was stable")
    ).otherwise("")
    return finding(
        rows,
        analysis="migrations",
        severity="info",
        member=F.when(F.col("trigger").isNotNull(), member("trigger.client_id", "trigger.client_host")),
        from_ts_ms=F.col("ts_ms"),
        to_ts_ms=F.col("ts_ms") + F.coalesce("settled_ms", F.lit(0)),
        cause=F.when(upgraded, "group_upgraded").otherwise("group_downgraded"),
        sentence=sentence(
            "Group {group_id} went over {way} at {ts_ms:clock} with {members} members{who}{settled}.",
            way=F.when(upgraded, "to the new protocol").otherwise("back to the classic protocol"),
            members=F.coalesce(F.col("members").cast("string"), F.lit("all its")),
            who=who,
            settled=settled,
        ),
        advice=F.when(
            ~upgraded, "If that was not intended: its last member of the new protocol left while classic ones stayed."
        ),
        value=F.coalesce("settled_ms", F.lit(0)),
        unit="ms",
    )
