"""12. Did one deployment or one host make many groups rebalance at once?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.analyses.findings import finding, member, packed, sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_INSTANCE: Final = r"([-_.](\d+|[0-9a-fA-F]{6,}))+$"


def client_family(client_id: str | Column) -> Column:
    """A client id without the numbers and hexadecimal digits at its end: `billing-7` and `billing-12` are `billing`."""
    return F.regexp_replace(F.col(client_id) if isinstance(client_id, str) else client_id, _INSTANCE, "")


def correlation(
    rebalances: DataFrame, *, window_ms: int = 300_000, min_groups: int = 3, times_usual: float = 3.0
) -> DataFrame:
    """One row a period in which unusually many groups rebalanced, by what they have in common.

    Time is cut into windows of `window_ms` (ms); adjacent windows are one period. `kind`: `host` (`key` is the host
    of the triggers), `client` (the client id without its number), `fleet` (all groups, key empty). A window counts if
    it has `min_groups` groups (the fleet: three times as many), and `times_usual` times the mean of all windows of the
    history. Columns: `kind`, `key`; `from_ts_ms`, `to_ts_ms` (ms since 1970); `groups`, the most in one window;
    `rebalances`; `usual_groups`, that mean; `is_inferred`; `first`, `last`: packed evidence.
    """
    window = F.floor(F.col("ts_ms") / window_ms).cast("long").alias("window")
    rows = rebalances.select(
        "group_id",
        window,
        F.col("trigger.client_host").alias("host"),
        client_family("trigger.client_id").alias("client"),
        (F.col("basis") == "inferred").cast("int").alias("is_inferred"),
        packed().alias("place"),
    )
    # Counted once for all kinds: counting a rebalance's own columns before would hardly make fewer of them.
    keys = F.explode(
        F.array(
            *(
                F.struct(F.lit(kind).alias("kind"), key.alias("key"))
                for kind, key in (("host", F.col("host")), ("client", F.col("client")), ("fleet", F.lit("")))
            )
        )
    )
    sums = (
        F.sum("n").alias("n"),
        F.max("is_inferred").alias("is_inferred"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    per_group = (
        rows.select("group_id", "window", "is_inferred", "place", keys.alias("_k"))
        .where("_k.key is not null")
        .groupBy("_k.kind", "_k.key", "window", "group_id")
        .agg(
            F.count("*").alias("n"),
            F.max("is_inferred").alias("is_inferred"),
            F.min("place").alias("first"),
            F.max("place").alias("last"),
        )
    )
    per_window = per_group.groupBy("kind", "key", "window").agg(F.count("*").alias("groups"), *sums)
    whole = per_window.where("kind = 'fleet'").agg((F.max("window") - F.min("window") + 1).alias("_windows"))
    of_key = Window.partitionBy("kind", "key")
    order = of_key.orderBy("window")
    least = F.when(F.col("kind") == "fleet", F.lit(min_groups * 3)).otherwise(F.lit(min_groups))
    unusual = (
        per_window.crossJoin(F.broadcast(whole))  # one row
        .withColumn("usual_groups", F.sum("groups").over(of_key) / F.col("_windows"))
        .where((F.col("groups") >= least) & (F.col("groups") >= F.col("usual_groups") * times_usual))
        .withColumn("_new", F.coalesce(F.col("window") - F.lag("window").over(order) > 1, F.lit(True)).cast("int"))
        .withColumn("_stretch", F.sum("_new").over(order))
    )
    return (
        unusual.groupBy("kind", "key", "_stretch", "usual_groups")
        .agg(
            F.min("window").alias("_from"),
            F.max("window").alias("_to"),
            F.max("groups").alias("groups"),
            *sums,
        )
        .select(
            "kind",
            "key",
            (F.col("_from") * window_ms).alias("from_ts_ms"),
            ((F.col("_to") + 1) * window_ms).alias("to_ts_ms"),
            "groups",
            F.col("n").alias("rebalances"),
            "usual_groups",
            (F.col("is_inferred") == 1).alias("is_inferred"),
            "first",
            "last",
        )
    )


def findings(rows: DataFrame) -> DataFrame:
    """One finding a period."""
    is_host, is_client = F.col("kind") == "host", F.col("kind") == "client"
    what = (
        F.when(is_host, sentence("started on host {key}"))
        .when(is_client, sentence("were started by clients {key}"))
        .otherwise("happened together")
    )
    return finding(
        rows,
        analysis="correlation",
        severity="warning",
        member=F.when(is_host, member(client_host="key")).when(is_client, member(client_id="key")),
        cause=F.when(is_host, "host").when(is_client, "deploy").otherwise("fleet"),
        sentence=sentence(
            "{rebalances} rebalances of up to {groups} groups at the same time {what}, from {from_ts_ms:clock} to "
            "{to_ts_ms:clock}; on average it is {usual} groups.",
            what=what,
            usual=F.format_string("%.2f", "usual_groups"),
        ),
        advice=F.when(is_host, "Check that host: it affects groups that have nothing else in common.")
        .when(is_client, "A deployment restarts these clients: roll it out more slowly, or set group.instance.id.")
        .otherwise("Check the brokers and the network: unrelated groups rebalanced at the same time."),
        value=F.col("groups"),
        unit="groups",
        basis=F.when(F.col("is_inferred"), "inferred").otherwise("observed"),
    )
