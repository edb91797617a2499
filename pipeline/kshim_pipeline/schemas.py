"""Every table of the model, declared once: columns, types, units, meaning.

`docs/pipeline-tables.md` is printed from here (`python -m kshim_pipeline.schemas`), and a test compares the two. A
column of DataType `t` carries `{"comment": meaning, "unit": unit}` as metadata, which Parquet files keep.

One model holds the history of one cluster, so a group id names one group. Instants are ms since 1970, wall clock of the
broker. Hosts are written without Java's leading slash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kshim_pipeline.records import RECORDS

OBSERVED: Final = "observed"
"""Reported by the broker: an event, or a line of its log."""
INFERRED: Final = "inferred"
"""Concluded from records, which do not show when a rebalance began, why, or who triggered it."""
BASES: Final = (OBSERVED, INFERRED)

INFERRED_REASONS: Final[Mapping[str, str]] = {
    "member_gone": "a member of the previous generation is missing in this one; whether it left or timed out is not recorded",
    "member_restarted": "a member was replaced by one with the same client id and host",
    "members_changed": "members joined and others left",
    "topics_changed": "groups of the new protocol: topics that it subscribes to were made, deleted or got partitions",
    "subscription_changed": "groups of the new protocol: a member wants other topics or another assignor",
    "cooperative_follow_up": "the members are the same, and the previous generation left partitions unassigned for this one",
    "unknown": "the members are the same; topics changed, the leader requested it, or a member was present only in between",
}
"""Reasons of inferred rebalances, besides the keywords of docs/design/events.md."""


def _column(name: str, kind: DataType, meaning: str, unit: str = "", *, required: bool = False) -> StructField:
    return StructField(name, kind, nullable=not required, metadata={"comment": meaning, "unit": unit})


def _string(name: str, meaning: str, *, required: bool = False) -> StructField:
    return _column(name, StringType(), meaning, required=required)


def _int(name: str, meaning: str, unit: str = "", *, required: bool = False) -> StructField:
    return _column(name, IntegerType(), meaning, unit, required=required)


def _long(name: str, meaning: str, unit: str = "", *, required: bool = False) -> StructField:
    return _column(name, LongType(), meaning, unit, required=required)


def _instant(name: str, meaning: str, *, required: bool = False) -> StructField:
    return _long(name, meaning, "ms since 1970", required=required)


def _bool(name: str, meaning: str, *, required: bool = False) -> StructField:
    return _column(name, BooleanType(), meaning, required=required)


EVIDENCE: Final = StructType(
    [
        _string("topic", "Topic of the record, or `log`"),
        _int("partition", "Its partition; null in a log"),
        _long("offset", "Its offset, or the number of the line in the log"),
    ]
)
"""Where a row was read from."""

MEMBER_REF: Final = StructType(
    [
        _string("member_id", "Member id"),
        _string("group_instance_id", "`group.instance.id`; null: a dynamic member"),
        _string("client_id", "`client.id`; may be empty"),
        _string("client_host", "Address it connected from"),
    ]
)
"""A member; any part may be null if the source does not contain it."""

_EVIDENCE: Final = _column("evidence", EVIDENCE, "The record, event or line that this row was read from")
_GROUP: Final = _string("group_id", "Group id", required=True)
_MEMBER: Final = (
    _string("member_id", "Member id", required=True),
    _string("group_instance_id", "`group.instance.id`; null: a dynamic member"),
    _string("client_id", "`client.id`; may be empty"),
    _string("client_host", "Address it connected from"),
)
_INCARNATION: Final = _int(
    "incarnation", "How many times the group had been deleted, so that its generation ids started again", required=True
)
_GROUP_TYPE: Final = _string("group_type", "`classic`, or `consumer`: the new protocol (KIP-848)", required=True)
_TOPIC_PARTITION: Final = (_string("topic", "Topic", required=True), _int("partition", "Partition", required=True))

# fmt: off
_EVENT_MEMBER_FIELDS: Final = tuple(
    StructField(name, StringType()) for name in ("member_id", "instance_id", "client_id", "host")
)
_EVENT_MEMBER: Final = StructType([*_EVENT_MEMBER_FIELDS, StructField("client_reason", StringType())])
_EVENT_WAIT: Final = StructType(
    [
        *_EVENT_MEMBER_FIELDS,
        StructField("is_new", BooleanType()),
        StructField("wait_ms", LongType()),
        StructField("told_ms", LongType()),
    ]
)
_EVENT_KICKED: Final = StructType(
    [*_EVENT_MEMBER_FIELDS, StructField("reason", StringType()), StructField("was_pending", BooleanType())]
)
_EVENT_COUNTS: Final = StructType(
    [StructField(name, IntegerType()) for name in ("expected", "joined", "kicked", "pending_sync")]
)
_EVENT_ACTIVITY: Final = StructType(
    [
        StructField("connection_id", LongType()),
        StructField("opened_ms", LongType()),
        StructField("closed_ms", LongType()),
        StructField("closed_by", StringType()),
        StructField("last_request_ms", LongType()),
        StructField("last_api", StringType()),
        StructField("last_fetch_ms", LongType()),
        StructField("software", StringType()),
        StructField("last_commit_ms", LongType()),
        StructField("commit_before_ms", LongType()),
        StructField("commit_pause_ms", LongType()),
        StructField("has_fetch_session", BooleanType()),
    ]
)
_EVENT_PROGRESS: Final = StructType(
    [
        *_EVENT_MEMBER_FIELDS,
        StructField("is_new", BooleanType()),
        StructField("lost", IntegerType()),
        StructField("gained", IntegerType()),
        StructField("told_ms", LongType()),
        StructField("revoked_ms", LongType()),
        StructField("assigned_ms", LongType()),
    ]
)
_EVENT_GAP: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("unowned_ms", LongType()),
        StructField("from_member_id", StringType()),
        StructField("to_member_id", StringType()),
        StructField("had_state", BooleanType()),
    ]
)
_EVENT_STEP: Final = StructType(
    [
        StructField("state", StringType()),
        StructField("epoch", LongType()),
        *(StructField(name, ArrayType(StringType())) for name in ("to_revoke", "revoked", "received")),
        *(StructField(name, ArrayType(StringType())) for name in ("standby_revoked", "standby_received", "promoted")),
    ]
)
_EVENT_COURSE: Final = StructType(
    [
        StructField("compute_ms", LongType()),
        StructField("revoke_ms", LongType()),
        StructField("assign_ms", LongType()),
        StructField("last_to_revoke", _EVENT_WAIT),
        StructField("last_to_assign", _EVENT_WAIT),
        StructField("members", ArrayType(_EVENT_PROGRESS)),
        StructField("members_omitted", IntegerType()),
        StructField("unowned", ArrayType(_EVENT_GAP)),
        StructField("unowned_omitted", IntegerType()),
        StructField("step", _EVENT_STEP),
    ]
)
_EVENT_SUBSCRIPTION: Final = StructType(
    [
        *(StructField(name, ArrayType(StringType())) for name in ("topics", "added", "removed", "assignors")),
        *(StructField(name, IntegerType()) for name in ("omitted", "session_timeout_ms", "rebalance_timeout_ms")),
    ]
)
_EVENT_TOPIC_CHANGE: Final = StructType(
    [
        StructField("topic", StringType()),
        *(StructField(name, IntegerType()) for name in ("partitions_before", "partitions")),
        StructField("changed_ms", LongType()),
    ]
)
_EVENT_RANGE: Final = StructType(
    [StructField(name, LongType()) for name in ("first_offset", "last_offset")]
    + [StructField("delivery_count", IntegerType())]
)
_EVENT_RECORDS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        *(StructField(name, LongType()) for name in ("first_offset", "last_offset", "count")),
        *(StructField(name, IntegerType()) for name in ("times", "delivery_count")),
        *(StructField(name, LongType()) for name in ("held_ms", "lock_ms")),
        StructField("delivery_count_limit", IntegerType()),
        StructField("ended_by", StringType()),
        StructField("ranges", ArrayType(_EVENT_RANGE)),
        StructField("ranges_omitted", IntegerType()),
    ]
)
_EVENT_END: Final = StructType([StructField(name, StringType()) for name in ("reason", "text", "member_id")])
_EVENT_COLUMNS: Final[Mapping[str, DataType]] = {
    "v": IntegerType(), "event_id": StringType(), "run": StringType(), "seq": LongType(), "ts_ms": LongType(),
    "mono_ms": LongType(), "broker": IntegerType(), "group": StringType(), "protocol_type": StringType(),
    "group_type": StringType(), "epoch": LongType(), "from_generation": IntegerType(), "to_generation": IntegerType(), "type": StringType(),
    "state_from": StringType(), "state_to": StringType(), "reason": StringType(), "reason_text": StringType(),
    "trigger": _EVENT_MEMBER, "replaced_member_id": StringType(), "leader_id": StringType(), "members": _EVENT_COUNTS,
    "join_ms": LongType(), "sync_ms": LongType(), "total_ms": LongType(), "last_to_join": _EVENT_WAIT,
    "last_to_sync": _EVENT_WAIT, "waits": ArrayType(_EVENT_WAIT), "waits_omitted": IntegerType(),
    "kicked": ArrayType(_EVENT_KICKED), "kicked_omitted": IntegerType(), "initial_delay_ms": LongType(),
    "protocol": StringType(), "outcome": StringType(), "ended_by": _EVENT_END,
    "reconciliation": _EVENT_COURSE, "activity": _EVENT_ACTIVITY, "subscription": _EVENT_SUBSCRIPTION,
    "topic_changes": ArrayType(_EVENT_TOPIC_CHANGE), "records": _EVENT_RECORDS,
}
# fmt: on


def _event_column(name: str, kind: DataType) -> StructField:
    unit = "" if not name.endswith("_ms") else "ms since 1970" if name == "ts_ms" else "ms"
    return _column(name, kind, "As in docs/design/events.md", unit)


EVENTS: Final = StructType(
    [
        *(_event_column(name, kind) for name, kind in _EVENT_COLUMNS.items()),
        _string("injected_fault", "As in docs/design/events.md; no analysis reads it"),
        _EVIDENCE,
    ]
)
"""`__kshim_events`, parsed, with its own names. One row an event, even if it was delivered twice."""

LOG_LINES: Final = StructType(
    [
        _instant("ts_ms", "When the line was written", required=True),
        _string(
            "type",
            "`preparing`, `stabilized`, `assignment_received`, `emptied`, `member_failed`, "
            "`member_created`, `member_added`, `members_removed`, `member_left`, `static_replaced`, `static_fenced`, "
            "`stopping`, ...",
            required=True,
        ),
        _string("group_id", "Group id in the line; null if it has none"),
        _int("generation_id", "Generation id in the line; in `preparing` the old one"),
        _int("members", "Member count in the line"),
        _string("member_id", "Member id in the line"),
        _string("group_instance_id", "Instance id in the line"),
        _string("owner_id", "Id of the member that another one has replaced, or whose instance id it asked for"),
        _column("member_ids", ArrayType(StringType()), "Member ids, where the line has several"),
        _string("client_id", "Client id in the line"),
        _string("client_host", "Address in the line"),
        _string("state", "State in the line"),
        _string("reason_text", "The reason in the line"),
        _string("client_reason", "The client's reason in it (KIP-800)"),
        _EVIDENCE,
    ]
)
"""Lines of a broker's log about a group; evidence: topic `log`, offset = number of the line."""

LOG_ENDS: Final = StructType(
    [
        *_TOPIC_PARTITION,
        _instant("ts_ms", "When it was sampled", required=True),
        _long("log_end_offset", "Offset that the next record will get", required=True),
    ]
)
"""Sampled log-end offsets: `kshim_pipeline.land.log_ends`."""

GENERATIONS: Final = StructType(
    [
        _GROUP,
        _GROUP_TYPE,
        _INCARNATION,
        _int("generation_id", "Generation id; of the new protocol, the group epoch", required=True),
        _int("ordinal", "The group's generations in the order of their records, from 0; no gaps", required=True),
        _string("state", "`Stable`, or `Empty`: the last member left, or none had joined yet", required=True),
        _instant(
            "ts_ms",
            "When the assignment (of the new protocol, the target) was stored, or the group became empty",
            required=True,
        ),
        _instant("joined_ts_ms", "End of the JOIN phase; null: unknown"),
        _long("sync_ms", "From the end of JOIN until the assignment was stored; null: unknown", "ms"),
        _instant("until_ts_ms", "When the next generation was stored or the group deleted; null: still the latest"),
        _string("ended_as", "What came next: `generation` or `deleted`; null: nothing yet"),
        _string("protocol_type", "Protocol type; empty when not known"),
        _string("protocol", "Protocol (assignor); null when Empty"),
        _string("leader_id", "Member id of the leader; null when Empty"),
        _int("members", "Members", required=True),
        _int("partitions", "Partitions assigned; null: the assignment is not readable, or the source is an event"),
        _int("previous_partitions", "The same of the previous generation; null: there is none, or not readable"),
        _int("missed", "Generation ids skipped since the previous one: rebalances that stored no assignment"),
        _string("source", "`records` or `events`", required=True),
        _EVIDENCE,
    ]
)

MEMBERSHIPS: Final = StructType(
    [
        _GROUP,
        _GROUP_TYPE,
        _INCARNATION,
        _int("generation_id", "Generation it is a member of; with `left`, the first one without it", required=True),
        _instant("ts_ms", "Instant of that generation; with a `left_reason`, when it left", required=True),
        *_MEMBER,
        _string(
            "owner",
            "Instance id of a static member, else the member id: what stays the same when a static member restarts",
            required=True,
        ),
        _string("change", "`joined`, `kept`, `left`, or `replaced`: a static member under a new id", required=True),
        _string("replaced_member_id", "With `replaced`, the previous id"),
        _string("left_reason", "With `left`, the keyword of docs/design/events.md; null: unknown"),
        _bool("is_leader", "Leader of that generation"),
        _int("session_timeout_ms", "`session.timeout.ms`; null: the source is an event", "ms"),
        _int("rebalance_timeout_ms", "usually `max.poll.interval.ms`; null: as above", "ms"),
        _int("partitions", "Partitions assigned to it; null: unknown"),
        _long(
            "join_wait_ms",
            "How long other members waited for it in JOIN, or until it gave up partitions (new protocol); null: unknown, as in "
            "records",
            "ms",
        ),
        _string("source", "`records`, `events`, or `both`", required=True),
        _EVIDENCE,
    ]
)

OWNERSHIP: Final = StructType(
    [
        _GROUP,
        *_TOPIC_PARTITION,
        _string("owner", "Instance id of a static member, else the member id", required=True),
        *_MEMBER,
        _INCARNATION,
        _int("from_generation", "First generation of the interval", required=True),
        _int("to_generation", "Last generation of the interval", required=True),
        _int("generations", "Generations it lasted", required=True),
        _instant("from_ts_ms", "Start of the interval: when its first generation was stored", required=True),
        _instant("to_ts_ms", "End, exclusive: when the generation after its last was stored; null: not ended"),
        _string("previous_owner", "Owner of the previous interval; null: unknown"),
        _long(
            "unowned_ms", "From the end of the previous interval to the start of this one; null: there is none", "ms"
        ),
        _EVIDENCE,
    ]
)

COMMITS: Final = StructType(
    [
        _GROUP,
        *_TOPIC_PARTITION,
        _long("committed_offset", "The next record to read; null: the offset was deleted (tombstone)"),
        _int("leader_epoch", "Leader epoch of the record before it; -1 or null: none"),
        _instant("ts_ms", "When it was committed", required=True),
        _int("incarnation", "As in generations; null: no generation was recorded yet"),
        _int(
            "generation_id",
            "The group's latest stored generation at that time; commits do not contain theirs. Null: as above",
        ),
        _EVIDENCE,
    ]
)

_TRIGGER: Final = StructType([*MEMBER_REF.fields, _string("client_reason", "The client's reason (KIP-800)")])
_SLOWEST: Final = StructType(
    [
        *MEMBER_REF.fields,
        _bool("is_new", "It joined the group in this rebalance"),
        _long("wait_ms", "How long other members waited for it", "ms"),
    ]
)

REBALANCES: Final = StructType(
    [
        _GROUP,
        _GROUP_TYPE,
        _int("from_generation", "Generation id when it began; null: it is the first known one"),
        _int("to_generation", "Generation id it created; null: none"),
        _instant("ts_ms", "When it began; if unknown, when it ended", required=True),
        _instant("started_ts_ms", "When it began; null: unknown"),
        _instant("joined_ts_ms", "When JOIN ended; null: not reached, or unknown"),
        _instant("ended_ts_ms", "When it was completed or aborted; null: it is open"),
        _string(
            "outcome",
            "`completed`, `aborted`, `superseded`, `open`, or `cut_off`: the broker stopped",
            required=True,
        ),
        _string("reason", "Keyword of docs/design/events.md or of inference, see below", required=True),
        _string("reason_text", "A sentence; may be empty"),
        _column("trigger", _TRIGGER, "The member that triggered it; null: none, or unknown"),
        _string("ended_by", "Why it ended, keyword of docs/design/events.md; null: unknown"),
        _string("protocol_type", "Protocol type; null: unknown"),
        _string("protocol", "Protocol (assignor) it chose; null: none, or unknown"),
        _int("expected", "Distinct members the group had while it ran; null: unknown"),
        _int("joined", "Members of the new generation; null: not reached, or unknown"),
        _int("kicked", "Members that the coordinator removed while it ran; null: unknown"),
        _int("came", "Members that are new since the previous generation; null: unknown"),
        _int("went", "Members of the previous generation that are missing; null: unknown"),
        _int("missed", "Generations skipped before this one that stored no assignment; null: unknown"),
        _int(
            "partitions", "Partitions that were stopped: the larger of those assigned before and after; null: unknown"
        ),
        _long(
            "initial_delay_ms", "`group.initial.rebalance.delay.ms` as it applied; null: it did not, or unknown", "ms"
        ),
        _long("join_ms", "Length of the JOIN phase; null: unknown", "ms"),
        _long("sync_ms", "Length of the SYNC phase; null: not reached, or unknown", "ms"),
        _long(
            "compute_ms", "New protocol: from the new group epoch to its target; null: not reached, or unknown", "ms"
        ),
        _long("revoke_ms", "From there until the last member had given up partitions; null: as above", "ms"),
        _long("assign_ms", "From there until all members were at the target; null: as above", "ms"),
        _long("total_ms", "From beginning to end; null: unknown, or open", "ms"),
        _column("last_to_join", _SLOWEST, "The member that joined last; null: unknown"),
        _column("last_to_sync", _SLOWEST, "The member whose SyncGroup was the last; null: unknown"),
        _column(
            "last_to_revoke",
            _SLOWEST,
            "New protocol: the member that gave up partitions last, or holds them still; null: none, or unknown",
        ),
        _column("last_to_assign", _SLOWEST, "New protocol: the member that was at the target last; null: as above"),
        _long("unowned_ms", "New protocol: the longest time in which a partition had no owner; null: unknown", "ms"),
        _long("unowned_partition_ms", "The same, summed over all partitions", "ms"),
        _string("basis", "`observed` or `inferred`", required=True),
        _string("source", "`events`, `log` or `records`", required=True),
        _EVIDENCE,
    ]
)

MIGRATIONS: Final = StructType(
    [
        _GROUP,
        _instant("ts_ms", "When it went over", required=True),
        _string("from_type", "`classic` or `consumer`", required=True),
        _string("to_type", "`consumer` or `classic`", required=True),
        _int("generation_id", "Its generation id, or group epoch, as it went over"),
        _int("members", "Members that it had then"),
        _column("trigger", MEMBER_REF, "The first member of the new protocol, or the last; null: none, or unknown"),
        _string("basis", "`observed` or `inferred`", required=True),
        _EVIDENCE,
    ]
)

FINDINGS: Final = StructType(
    [
        _string("analysis", "Name of the analysis, or of the diagnosis", required=True),
        _string("severity", "`info`, `warning` or `critical`", required=True),
        _string("group_id", "Group it is about; null: several, named in the sentence"),
        _string("topic", "Topic it is about, if any"),
        _int("partition", "Partition it is about, if any"),
        _column("member", MEMBER_REF, "Member, client or host it is about; null: none"),
        _instant("from_ts_ms", "Start of the finding"),
        _instant("to_ts_ms", "End of the finding"),
        _string("cause", "Keyword for the cause, if the analysis has one"),
        _string("sentence", "The finding, as a sentence", required=True),
        _string("advice", "A recommendation; null: none"),
        _column("value", DoubleType(), "The measure that orders findings of one analysis; larger is worse"),
        _string("unit", "Its unit"),
        _string("basis", "`observed` or `inferred`", required=True),
        _column(
            "evidence",
            ArrayType(EVIDENCE),
            "Where it was read; the first ones if there are many",
            required=True,
        ),
    ]
)

_REASON: Final = StructType(
    [
        _string("text", "What was seen, or not"),
        _string(
            "weight", "`must`: only this cause predicts it; `likely`, `neutral`, `unlikely`; `must_not`: it excludes it"
        ),
    ]
)
_EFFECT: Final = StructType(
    [
        _string("group", "Group id"),
        _int("rebalance_count", "Rebalances"),
        _long("join_ms", "The longest JOIN phase, or phase revoke of the new protocol; null: unknown", "ms"),
        _long("sync_ms", "The longest SYNC phase; null: unknown", "ms"),
        _string("last_to_join", "The client for which others waited longest; null: none, or unknown"),
        _long("last_wait_ms", "How long they waited", "ms"),
        _long(
            "unowned_ms",
            "From the last sign of a departed member to the assignment of its partitions; null: none departed",
            "ms",
        ),
        _bool("is_observed", "Whether a broker reported its rebalances"),
        _bool("has_epochs", "It has the new protocol"),
    ]
)
_ALTERNATIVE: Final = StructType(
    [
        _string("cause", "Another cause"),
        _column("confidence", DoubleType(), "Its probability, from 0 to 1"),
        _column("evidence", ArrayType(_REASON), "What speaks for it and against it"),
    ]
)

INCIDENTS: Final = StructType(
    [
        _string("cause", "What disturbed the groups, a cause of docs/why.md", required=True),
        _string("subject", "Who is responsible: `client`, `clients`, `group`, `host` or `broker`", required=True),
        _column("groups", ArrayType(StringType()), "Group ids", required=True),
        _column(
            "clients",
            ArrayType(StringType()),
            "Instance ids or `client id@host`: those responsible, or affected if the subject is something else",
            required=True,
        ),
        _string("host", "The host, if there is one"),
        _column("member_ids", ArrayType(StringType()), "Ids that its clients had", required=True),
        _instant("from_ms", "The first sign of it", required=True),
        _instant("to_ms", "The last sign of it", required=True),
        _column("confidence", DoubleType(), "Probability of the cause, from 0 to 1", required=True),
        _string("basis", "`observed` or `inferred`", required=True),
        _string("sentence", "What happened, as a sentence", required=True),
        _string("advice", "A recommendation; null: none"),
        _string("would_tell", "Where to look for what is not certain; null: it is certain enough"),
        _column("effects", ArrayType(_EFFECT), "What it did to each group", required=True),
        _column("reasons", ArrayType(_REASON), "What speaks for the cause and against it", required=True),
        _column("alternatives", ArrayType(_ALTERNATIVE), "The next probable causes", required=True),
        _column(
            "evidence",
            ArrayType(EVIDENCE),
            "Where it was read; the first ones if there are many",
            required=True,
        ),
    ]
)


_RECORD_MEANINGS: Final[Mapping[str, str]] = {
    "topic": "Topic",
    "partition": "Partition",
    "offset": "Offset",
    "timestamp_ms": "The record's timestamp (ms since 1970)",
    "key": "Key; null: none",
    "value": "Value; null: a tombstone",
    "source": "Where it was read, e.g. `kafka:HOST:PORT`",
}

_STATE_BATCH: Final = StructType(
    [
        _long("first_offset", "First record of the range"),
        _long("last_offset", "Last record of it, inclusive"),
        _int("delivery_state", "0 available, 2 acknowledged, 3 archiving, 4 archived"),
        _int("delivery_count", "How often it was delivered"),
    ]
)

SHARE_STATE: Final = StructType(
    [
        *(
            _column(field.name, field.dataType, _RECORD_MEANINGS[field.name], required=not field.nullable)
            for field in RECORDS.fields
            if field.name not in ("key", "value", "timestamp_ms")
        ),
        _instant("timestamp_ms", "The record's timestamp", required=True),
        _string("kind", "`share_snapshot`, `share_update`, `unknown` (its type), or `unreadable`", required=True),
        _int("key_type", "Its type, a number; null: as long as none can be read"),
        _bool("is_tombstone", "The state was deleted", required=True),
        _string("problem", "Why it is unreadable; null: it is not"),
        _string("group_id", "Group id; null: unreadable, or of an unknown type"),
        _string("shared_topic_id", "Topic whose records are shared, 32 hex digits"),
        _int("shared_partition", "Partition of it"),
        _int("snapshot_epoch", "Number of the snapshot; of an update: of that which it changes"),
        _int("state_epoch", "Of a snapshot: raised when a group starts anew"),
        _int("leader_epoch", "Leader epoch of the partition; -1: none"),
        _long("start_offset", "The first record that is not done; -1: none, or of an update as before"),
        _int("delivery_complete_count", "Records from the start on that are done; -1: not known"),
        _instant("created_ms", "Of a snapshot: when the state was made"),
        _instant("written_ms", "Of a snapshot: when it was written"),
        _column("batches", ArrayType(_STATE_BATCH), "The state of ranges of records"),
    ]
)


class Table(NamedTuple):
    """A table of the model: its name, schema, key columns and what one row is."""

    name: str
    schema: StructType
    row: str


TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        Table("records", RECORDS, "A record of any topic, as it was read; a source may return one twice"),
        Table("events", EVENTS, "An event of a kshim coordinator, read from the topic `__kshim_events`"),
        Table("log_lines", LOG_LINES, "A line of a Kafka broker's log about a group"),
        Table(
            "share_state",
            SHARE_STATE,
            "A record of `__share_group_state`: what a share group made of records; the table is there if that topic was read",
        ),
        Table("log_ends", LOG_ENDS, "A sampled log-end offset; `land` samples once a minute while it runs"),
        Table("generations", GENERATIONS, "A generation of a group whose assignment was stored, or that is empty"),
        Table("memberships", MEMBERSHIPS, "A member in a generation, or its absence in the first one without it"),
        Table("ownership", OWNERSHIP, "An interval of consecutive generations in which a partition had one owner"),
        Table("commits", COMMITS, "A committed offset, or its deletion"),
        Table("rebalances", REBALANCES, "A rebalance; of the new protocol, a group epoch"),
        Table("migrations", MIGRATIONS, "A group that went over from one protocol to the other"),
        Table("incidents", INCIDENTS, "Something that disturbed groups, as `kshim why` tells of it"),
        Table("findings", FINDINGS, "A finding for an operator"),
    )
}
"""By name, in the order of the page."""

_PARTS: Final[Mapping[str, StructType]] = {
    "evidence": EVIDENCE,
    "member": MEMBER_REF,
    "trigger": _TRIGGER,
    "slowest": _SLOWEST,
    "effect": _EFFECT,
    "reason": _REASON,
    "alternative": _ALTERNATIVE,
    "state_batch": _STATE_BATCH,
}

_INTRODUCTION: Final = """\
# The tables of the pipeline

Generated from `kshim_pipeline/schemas.py` by `python -m kshim_pipeline.schemas`; a test compares the two. One model holds
the history of one cluster. Instants are ms since 1970 by the broker's wall clock, durations ms. Hosts are written
without Java's leading slash. A row of `rebalances` and of `findings` is `observed` when the broker reported it in an
event or in its log, and `inferred` when it was concluded from `__consumer_offsets`. Columns marked `!` are never null.
"""


def tables_page() -> str:
    """The page docs/pipeline-tables.md, in Markdown."""
    return "\n".join(_page_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield _INTRODUCTION
    for table in TABLES.values():
        yield f"## {table.name}\n\n{table.row}.\n\n| Column | Type | Unit | Meaning |\n|---|---|---|---|"
        for field in table.schema.fields:
            yield _row(field)
        yield ""
    yield "## Parts\n\nStructured types.\n\n| Column | Type | Unit | Meaning |\n|---|---|---|---|"
    for name, part in _PARTS.items():
        for field in part.fields:
            yield _row(field, f"{name}.")
    yield "\n## Reasons that are inferred\n\n| Keyword | Meaning |\n|---|---|"
    for keyword, meaning in INFERRED_REASONS.items():
        yield f"| `{keyword}` | {meaning} |"


def _row(field: StructField, prefix: str = "") -> str:
    meaning = field.metadata.get("comment") or _RECORD_MEANINGS[field.name]
    unit = field.metadata.get("unit", "")
    mark = "" if field.nullable else " !"
    return f"| `{prefix}{field.name}`{mark} | {_type_name(field.dataType)} | {unit} | {meaning} |"


def _type_name(kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"array of {_type_name(kind.elementType)}"
    if isinstance(kind, StructType):
        return next((name for name, part in _PARTS.items() if part == kind), "as in the event")
    return kind.simpleString()


if __name__ == "__main__":
    print(tables_page(), end="")
