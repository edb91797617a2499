"""6. How many partitions change owner, and how many needlessly, by assignor?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_GENERATION = ("group_id", "incarnation", "generation_id")


def stickiness(generations: DataFrame, ownership: DataFrame, memberships: DataFrame) -> DataFrame:
    """One row a group and assignor; inferred from records, which contain the assignments.

    A partition moved if its owner differs from the previous one; needlessly if the previous owner is still a member.
    Columns: `group_id`, `protocol`; `generations` that followed another with partitions; `assigned`, partitions that
    the generations before had, summed; `moved`; `needless`, those moved from a member that stayed; `kept_share` (0..1);
    `first`, `last`: packed evidence.
    """
    moves = ownership.where("previous_owner is not null and previous_owner != owner").select(
        "group_id",
        "incarnation",
        F.col("from_generation").alias("generation_id"),
        F.col("previous_owner").alias("owner"),
    )
    there = memberships.where("change in ('kept', 'replaced') and source != 'events'")
    there = there.select(*_GENERATION, "owner", F.lit(1).alias("_there"))
    # Counted before the join: as many rows as owners who lost something, not as partitions that moved.
    lost = moves.groupBy(*_GENERATION, "owner").agg(F.count("*").alias("moved"))
    counted = (
        lost.join(there, [*_GENERATION, "owner"], "left")
        .groupBy(*_GENERATION)
        .agg(F.sum("moved").alias("moved"), F.sum(F.when(F.col("_there") == 1, F.col("moved"))).alias("needless"))
    )
    followed = generations.where("previous_partitions > 0 and state = 'Stable'").select(
        *_GENERATION, "protocol", "previous_partitions", packed().alias("place")
    )
    return (
        followed.join(counted, list(_GENERATION), "left")
        .groupBy("group_id", "protocol")
        .agg(
            F.count("*").alias("generations"),
            F.sum("previous_partitions").alias("assigned"),
            F.coalesce(F.sum("moved"), F.lit(0)).alias("moved"),
            F.coalesce(F.sum("needless"), F.lit(0)).alias("needless"),
            F.min("place").alias("first"),
            F.max("place").alias("last"),
        )
        .select(
            "group_id",
            "protocol",
            "generations",
            "assigned",
            "moved",
            "needless",
            (1 - F.least(F.col("moved") / F.col("assigned"), F.lit(1.0))).alias("kept_share"),
            "first",
            "last",
        )
    )


def by_assignor(rows: DataFrame) -> DataFrame:
    """The rows of `stickiness`, one an assignor: `protocol`, `groups`, and the sums and the share of above."""
    return (
        rows.groupBy("protocol")
        .agg(
            F.count("*").alias("groups"),
            *(F.sum(name).alias(name) for name in ("generations", "assigned", "moved", "needless")),
        )
        .withColumn("kept_share", 1 - F.least(F.col("moved") / F.col("assigned"), F.lit(1.0)))
    )


def findings(rows: DataFrame, *, min_needless_share: float = 0.2, min_generations: int = 5) -> DataFrame:
    """One finding a group and assignor that needlessly moved a large share of partitions, over some generations."""
    share = F.col("needless") / F.col("assigned")
    return finding(
        rows.where((share >= min_needless_share) & (F.col("generations") >= min_generations)),
        analysis="stickiness",
        severity="info",
        cause="assignor",
        sentence=sentence(
            "In {generations} generations of group {group_id}, the assignor {protocol} moved {moved} of {assigned} "
            "partitions, {needless} of them away from members that stayed."
        ),
        advice=F.when(
            F.col("protocol").contains("sticky"), "Members have different subscriptions, or join and leave in between."
        ).otherwise(sentence("cooperative-sticky would have kept up to {share:percent} % more in place.", share=share)),
        value=share,
        unit="share",
        basis="inferred",
    )
