"""Lines of a Kafka broker's log -> rebalances: beginning, reason and both phases, as the coordinator logged them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kshim_pipeline.model.shape import shaped
from kshim_pipeline.schemas import OBSERVED, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


REASON_PATTERNS: Final[Mapping[str, str]] = {
    "(?i)removing member .* on heartbeat expiration": "session_timeout",
    "(?i)pending sync request expiration|no SyncGroup in time": "sync_timeout",
    "(?i)static member .* with instance id .* (joined with change of protocol|joined again)": "static_replaced",
    "(?i)updating metadata for static member": "static_replaced",
    "(?i)removed by an admin": "admin",
    "(?i)explicit `LeaveGroup` request": "member_left",
    "(?i)^leader .* re-joining": "leader_rejoined",
    "(?i)^updating metadata|^new metadata of member": "metadata_changed",
    "(?i)^adding new member|^member .* (is )?joining": "member_joined",
    "(?i)over capacity": "group_too_large",
    "(?i)error .* when storing|^[A-Z_]+ when storing": "append_failed",
}
"""Patterns of Kafka 4.4's reason texts (and of kshim's, which are alike) -> keywords; the first that fits counts."""

_NAMES_A_MEMBER: Final = (
    r"(?i)(?:adding new member|leader|updating metadata for member|removing member|metadata of member|removing|"
    r"member) (\S+?)(?: with group| with instance|;|,| re-joining| is joining| joining| during| on |$)"
)
_NAMES_LEAVERS: Final = r"(?i)`LeaveGroup` request for \((?:memberId=)?([^\s,;)]+)"
_NAMES_AN_INSTANCE: Final = r"(?i)instance id (\S+?)(?:;| |$)"
_CLIENT_ID: Final = r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_CLIENT_REASON: Final = r"(?i)client reason: (.*?)\)?$"


def reason_of_text(text: Column) -> Column:
    """The keyword for a reason as Kafka logs it; `unknown` where no pattern matches."""
    keyword: Column | None = None
    for pattern, name in REASON_PATTERNS.items():
        fits = text.rlike(pattern)
        keyword = F.when(fits, name) if keyword is None else keyword.when(fits, name)
    assert keyword is not None
    return keyword.otherwise("unknown")


def rebalances_of_log(log_lines: DataFrame) -> DataFrame:
    """Columns of rebalances, from the table log_lines: each begins with a line `preparing` of its group.

    It is completed when the leader's assignment was received, aborted when the group became empty, superseded when the
    next began before either. The log shows which members were removed during it, but not which joined last.
    """
    order = Window.partitionBy("group_id").orderBy("ts_ms", "evidence.offset")
    lines = log_lines.withColumn("_first", F.lag("evidence").over(order))
    lines = lines.where(~F.coalesce(F.col("_first") == F.col("evidence"), F.lit(False))).drop("_first")
    numbered = lines.withColumn("_n", F.sum((F.col("type") == "preparing").cast("int")).over(order)).where("_n > 0")

    def at(kind: str, column: str = "ts_ms") -> Column:
        return F.min(F.when(F.col("type") == kind, F.col(column)))

    removed = F.when(F.col("type") == "members_removed", F.size(F.coalesce("member_ids", F.array()))).when(
        (F.col("type") == "member_failed"), F.lit(1)
    )
    one = numbered.groupBy("group_id", "_n").agg(
        at("preparing").alias("started_ts_ms"),
        at("preparing", "generation_id").alias("from_generation"),
        at("preparing", "reason_text").alias("reason_text"),
        at("preparing", "client_reason").alias("_client_reason"),
        at("stabilized").alias("joined_ts_ms"),
        at("stabilized", "generation_id").alias("to_generation"),
        at("stabilized", "members").alias("joined"),
        at("assignment_received").alias("_assigned_ts_ms"),
        at("emptied").alias("_emptied_ts_ms"),
        F.coalesce(F.sum(removed), F.lit(0)).alias("kicked"),
        F.min(F.when(F.col("type") == "preparing", F.col("evidence"))).alias("evidence"),
    )
    next_ts_ms = F.lead("started_ts_ms").over(Window.partitionBy("group_id").orderBy("_n"))
    one = one.withColumn("_next_ts_ms", next_ts_ms)
    ended = F.coalesce("_assigned_ts_ms", "_emptied_ts_ms", "_next_ts_ms")
    text = F.coalesce("reason_text", F.lit(""))
    outcome = (
        F.when(F.col("_assigned_ts_ms").isNotNull(), "completed")
        .when(F.col("_emptied_ts_ms").isNotNull(), "aborted")
        .when(F.col("_next_ts_ms").isNotNull(), "superseded")
        .otherwise("open")
    )
    return shaped(
        one.withColumns(
            {
                "group_type": F.lit("classic"),
                "ts_ms": F.col("started_ts_ms"),
                "ended_ts_ms": ended,
                "outcome": outcome,
                "reason": reason_of_text(text),
                "trigger": _trigger(text),
                "join_ms": F.col("joined_ts_ms") - F.col("started_ts_ms"),
                "sync_ms": F.when(F.col("joined_ts_ms").isNotNull(), ended - F.col("joined_ts_ms")),
                "total_ms": ended - F.col("started_ts_ms"),
                "basis": F.lit(OBSERVED),
                "source": F.lit("log"),
            }
        ),
        REBALANCES,
    )


def _trigger(text: Column) -> Column:
    """The member in the line, with the client id taken from the member id; null if there is none."""

    def found(pattern: str, where: Column = text) -> Column:
        return F.nullif(F.regexp_extract(where, pattern, 1), F.lit(""))

    member_id = F.coalesce(found(_NAMES_LEAVERS), found(_NAMES_A_MEMBER))
    instance_id = F.nullif(found(_NAMES_AN_INSTANCE), F.lit("null"))
    client_reason = F.coalesce(F.col("_client_reason"), found(_CLIENT_REASON))
    return F.when(
        member_id.isNotNull() | instance_id.isNotNull(),
        F.struct(
            member_id.alias("member_id"),
            instance_id.alias("group_instance_id"),
            F.when(instance_id.isNull(), found(_CLIENT_ID, member_id)).alias("client_id"),
            F.lit(None).cast("string").alias("client_host"),
            F.nullif(client_reason, F.lit("not provided")).alias("client_reason"),
        ),
    )
