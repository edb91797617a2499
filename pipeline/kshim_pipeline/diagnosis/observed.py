"""Events or log lines -> signals that the broker reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.diagnosis.signals import Kind
from kshim_pipeline.diagnosis.tables import SIGNALS
from kshim_pipeline.model.logged import reason_of_text
from kshim_pipeline.model.shape import shaped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_REJOINS: Final = ("leader_rejoined", "metadata_changed")
_REJOINED_ID: Final = (
    r"(?i)^(?:leader|updating metadata for(?: static)? member|new metadata of member) (\S+?)(?:;|,| |$)"
)
_JOINED_ID: Final = r"(?i)^adding new member (\S+?)(?:;|,| |$)"


def signals_of_events(events: DataFrame) -> DataFrame:
    """SIGNALS from the table events."""
    rows = events.withColumns({"group_id": F.col("group"), "is_observed": F.lit(True), "is_new": F.lit(False)})
    kind = (
        F.when(F.col("type") == "member_joined", _name(Kind.JOINED))
        .when(F.col("type") == "member_fenced", _name(Kind.REPLACED))
        .when((F.col("type") == "rebalance_started") & F.col("reason").isin(*_REJOINS), _name(Kind.REJOINED))
        .when(F.col("type") != "member_left", None)
        .when(F.col("reason") == "session_timeout", _name(Kind.EXPIRED))
        .when(F.col("reason").isin("rebalance_timeout", "sync_timeout"), _name(Kind.KICKED))
        .otherwise(_name(Kind.LEFT))
    )
    of_members = rows.withColumns(
        {
            "kind": kind,
            "member_id": F.col("trigger.member_id"),
            "instance_id": F.col("trigger.instance_id"),
            "client_id": F.col("trigger.client_id"),
            "host": F.col("trigger.host"),
            "client_reason": F.col("trigger.client_reason"),
            "other_id": F.col("replaced_member_id"),
            "state": F.col("state_from"),
        }
    ).where("kind is not null")
    ended = rows.where("type in ('rebalance_completed', 'rebalance_aborted')").drop("members")
    old = F.filter("waits", lambda wait: ~wait["is_new"])
    slowest = F.array_max(F.transform(old, lambda wait: F.struct(wait["wait_ms"], wait["member_id"])))
    joins = ended.where("waits is not null").withColumns(
        {
            "kind": _name(Kind.JOIN_OVER),
            "ts_ms": F.col("ts_ms") - F.coalesce("sync_ms", F.lit(0)),
            "is_new": F.size(old) == 0,
            "member_id": slowest["member_id"],
            "wait_ms": slowest["wait_ms"],
        }
    )
    syncs = ended.where("type = 'rebalance_completed'").withColumns(
        {"kind": _name(Kind.SYNC_OVER), "member_id": F.col("leader_id"), "wait_ms": F.col("sync_ms")}
    )
    return _together(of_members, joins, syncs)


def signals_of_log(log_lines: DataFrame) -> DataFrame:
    """SIGNALS from the table log_lines, which have no hosts, and no new ids of static members that rejoined."""
    order = Window.partitionBy("group_id").orderBy("ts_ms", "evidence.offset")
    text = F.coalesce("reason_text", F.lit(""))

    def last(kind: str) -> Column:
        return F.last(F.when(F.col("type") == kind, F.col("ts_ms")), ignorenulls=True).over(order)

    state = F.last(
        F.when(F.col("type") == "preparing", "PreparingRebalance")
        .when(F.col("type") == "stabilized", "CompletingRebalance")
        .when(F.col("type") == "assignment_received", "Stable")
        .when(F.col("type") == "emptied", "Empty"),
        ignorenulls=True,
    ).over(order)
    rows = log_lines.withColumns(
        {
            "is_observed": F.lit(True),
            "is_new": F.lit(False),
            "instance_id": F.col("group_instance_id"),
            "host": F.col("client_host"),
            "_keyword": F.when(F.col("type") == "preparing", reason_of_text(text)),
            "_preparing_ms": last("preparing"),
            "_stabilized_ms": last("stabilized"),
        }
    ).withColumn("state", F.coalesce("state", state))
    is_created_static = (F.col("type") == "member_created") & F.col("group_instance_id").isNotNull()
    joined = rows.where((F.col("type") == "member_added") | is_created_static).withColumn("kind", _name(Kind.JOINED))
    reasons = (
        rows.where("_keyword = 'member_joined' and client_reason is not null")
        .groupBy("group_id", F.regexp_extract("reason_text", _JOINED_ID, 1).alias("member_id"))
        .agg(F.first("client_reason").alias("client_reason"))
    )
    left = rows.where("type in ('member_left', 'member_failed')").withColumn(
        "kind", F.when(F.col("type") == "member_failed", _name(Kind.EXPIRED)).otherwise(_name(Kind.LEFT))
    )
    removed = rows.where("type = 'members_removed' and reason_text like '%members who haven%'").withColumns(
        {"kind": _name(Kind.KICKED), "member_id": F.explode("member_ids")}
    )
    replaced = rows.where("type = 'static_replaced'").withColumns(
        {"kind": _name(Kind.REPLACED), "other_id": F.col("member_id"), "member_id": F.lit(None)}
    )
    rejoined = rows.where(F.col("_keyword").isin(*_REJOINS)).withColumns(
        {
            "kind": _name(Kind.REJOINED),
            "member_id": F.nullif(F.regexp_extract("reason_text", _REJOINED_ID, 1), F.lit("")),
        }
    )
    joins = rows.where("type = 'stabilized'").withColumns(
        {"kind": _name(Kind.JOIN_OVER), "wait_ms": F.col("ts_ms") - F.col("_preparing_ms"), "member_id": F.lit(None)}
    )
    syncs = rows.where("type = 'assignment_received'").withColumns(
        {"kind": _name(Kind.SYNC_OVER), "wait_ms": F.col("ts_ms") - F.col("_stabilized_ms")}
    )
    with_reasons = joined.drop("client_reason").join(reasons, ["group_id", "member_id"], "left")
    return _together(with_reasons, left, removed, replaced, rejoined, joins, syncs)


def _together(*parts: DataFrame) -> DataFrame:
    whole = shaped(parts[0], SIGNALS)
    for part in parts[1:]:
        whole = whole.unionByName(shaped(part, SIGNALS))
    return whole


def _name(kind: Kind) -> Column:
    return F.lit(kind.value)
