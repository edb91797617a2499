"""The groups of a fleet: how large, how restless, with whom, and how often each rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from bench.fleet.draws import chosen, div, log_uniform, mod, uniform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class Fleet(NamedTuple):
    """What a fleet is drawn from. `rebalances` in all, at least one a group; `start_ms` (ms since 1970); `days`."""

    rebalances: int
    groups: int = 10_000
    seed: int = 1
    start_ms: int = 1_788_220_800_000  # 2026-09-01, UTC
    days: int = 30

    @property
    def length_ms(self) -> int:
        """How long it is watched, ms."""
        return self.days * 86_400_000

    def draw(self, purpose: str, *ids: Column) -> Column:
        """A double in [0, 1) for the purpose and ids."""
        return uniform(self.seed, purpose, *ids)


class GroupKind(NamedTuple):
    """A part of the mixture: its share of groups, and the bounds of members and partitions, both log-uniform."""

    name: str
    share: float
    members: tuple[int, int]
    partitions: tuple[int, int]


GROUP_KINDS: Final = (
    GroupKind("tiny", 0.40, (1, 3), (1, 12)),
    GroupKind("small", 0.35, (4, 12), (3, 48)),
    GroupKind("medium", 0.18, (13, 50), (12, 200)),
    GroupKind("large", 0.06, (51, 150), (48, 600)),
    GroupKind("huge", 0.01, (151, 500), (150, 1_000)),
)
PROTOCOLS: Final = (("range", 0.5), ("cooperative-sticky", 0.3), ("sticky", 0.1), ("roundrobin", 0.1))
FLAPPING_SHARE: Final = 0.15
"""Groups of which a single member comes and goes; in the others each member has its turn."""
STATIC_SHARE: Final = 0.2
"""Groups whose members have a `group.instance.id`."""
SHARED_SHARE: Final = 0.05
"""Groups whose clients belong to one of SHARED_FAMILIES families, which are deployed together; others have their own."""
SHARED_FAMILIES: Final = 20
RECORDED_EVERY: Final = 4
"""One group in so many has records beside its events: generations, memberships, ownership and commits."""
SAMPLED_EVERY: Final = 20
"""One group in so many has its log ends sampled; these have records, too."""

_RESTLESS_POWER: Final = -0.8
_RESTLESS_MOST: Final = 100.0
PERIOD: Final = 8
"""Rebalances of a group come in periods of so many: three members go and come back, and two change nobody."""
FIRST_MS: Final = 3_600_000
"""In the first hour every group is formed, by its rebalance 0."""


def groups(spark: SparkSession, fleet: Fleet, *, tasks: int = 8) -> DataFrame:
    """One row a group; `tasks` says how the work is divided, and changes no row.

    Columns: `id` from 0; `group_id`; `kind`; `members`, `partitions` (of its one topic `topic`); `protocol`;
    `is_static`; `is_flapping`; `turnover`: its slots 0 to turnover-1 are those whose members come and go; `family`,
    number of its shared family (null: its own); `app`, its clients' id without the number of the slot; `is_recorded`,
    `is_sampled`; `rebalances`, how many it has, numbered from 0; `periods`, and `period_ms` (ms), length of each.

    Raises ValueError: fewer rebalances than groups.
    """
    if fleet.rebalances < fleet.groups:
        raise ValueError(f"{fleet.rebalances} rebalances are not one for each of {fleet.groups} groups")
    number = F.col("id")
    kind = fleet.draw("kind", number)
    bounds = chosen(kind, [(_bounds(one), one.share) for one in GROUP_KINDS])
    drawn = spark.range(0, fleet.groups, 1, tasks).select("id", bounds.alias("_kind"))
    family = F.floor(fleet.draw("family", number) * SHARED_FAMILIES).cast("int")
    drawn = drawn.select(
        "id",
        F.concat(F.lit("group-"), F.lpad(number.cast("string"), 5, "0")).alias("group_id"),
        F.concat(F.lit("topic-"), F.lpad(number.cast("string"), 5, "0")).alias("topic"),
        F.col("_kind.name").alias("kind"),
        *(
            log_uniform(fleet.draw(name, number), F.col(f"_kind.{name}_least"), F.col(f"_kind.{name}_most"))
            .cast("int")
            .alias(name)
            for name in ("members", "partitions")
        ),
        chosen(fleet.draw("protocol", number), PROTOCOLS).alias("protocol"),
        (fleet.draw("static", number) < STATIC_SHARE).alias("is_static"),
        (fleet.draw("flapping", number) < FLAPPING_SHARE).alias("is_flapping"),
        F.when(fleet.draw("shared", number) < SHARED_SHARE, family).alias("family"),
        (mod(number, RECORDED_EVERY) == 0).alias("is_recorded"),
        (mod(number, SAMPLED_EVERY) == 0).alias("is_sampled"),
        F.least(F.pow(1 - fleet.draw("restless", number), _RESTLESS_POWER), F.lit(_RESTLESS_MOST)).alias("_weight"),
    )
    own = F.regexp_replace("group_id", "^group-", "app")
    shared = F.concat(F.lit("platform"), F.col("family").cast("string"), F.lit("x-"), F.col("id").cast("string"))
    return _counted(drawn, fleet, tasks).select(
        "*",
        F.when(F.col("is_flapping"), F.lit(1)).otherwise(F.col("members")).alias("turnover"),
        F.when(F.col("family").isNull(), own).otherwise(shared).alias("app"),
        F.floor(F.lit(fleet.length_ms - FIRST_MS) / F.col("periods")).cast("long").alias("period_ms"),
    )


def _bounds(kind: GroupKind) -> Column:
    values = {
        "name": kind.name,
        "members_least": kind.members[0],
        "members_most": kind.members[1],
        "partitions_least": kind.partitions[0],
        "partitions_most": kind.partitions[1],
    }
    return F.struct(*(F.lit(value).alias(name) for name, value in values.items()))


def _counted(drawn: DataFrame, fleet: Fleet, tasks: int) -> DataFrame:
    """With `rebalances` and `periods`: one each, and the rest by weight; shares of a running sum lose none."""
    whole = Window.partitionBy(F.lit(0))
    so_far = whole.orderBy("id").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rest = fleet.rebalances - fleet.groups
    # The last row's running sum, not a sum of its own: doubles added in another order are not the same.
    total = F.max("_upto").over(whole)
    return (
        drawn.withColumn("_upto", F.sum("_weight").over(so_far))
        .withColumn("_given", F.round(F.col("_upto") / total * rest).cast("long"))
        .withColumn("_given_before", F.coalesce(F.lag("_given").over(whole.orderBy("id")), F.lit(0)))
        .withColumn("rebalances", (F.col("_given") - F.col("_given_before") + 1).cast("int"))
        .withColumn("periods", F.greatest(div(F.col("rebalances") + PERIOD - 2, PERIOD), F.lit(1)))
        .drop("_weight", "_upto", "_given", "_given_before")
        .repartition(tasks, "id")
    )
