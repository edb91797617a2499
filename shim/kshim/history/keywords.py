"""The vocabulary of the history: the reason of every event in one word."""

from __future__ import annotations

from typing import Final

from kshim.coordinator.groups.events import Cause
from kshim.share_partitions.troubles import REASONS as REASONS_OF_RECORDS
from kshim_protocol.errors import ErrorCode

ADMIN: Final = "admin"
ADMIN_LEAVE_REASON: Final = "member was removed by an admin"
"""What Kafka's Admin gives as the reason when it removes members, alone or followed by the caller's own words."""

REASONS: Final[dict[Cause, str]] = {
    Cause.MEMBER_JOINED: "member_joined",
    Cause.MEMBER_LEFT: "member_left",
    Cause.SESSION_EXPIRED: "session_timeout",
    Cause.REBALANCE_TIMEOUT: "rebalance_timeout",
    Cause.SYNC_TIMEOUT: "sync_timeout",
    Cause.INITIAL_DELAY_OVER: "initial_delay_over",
    Cause.LEADER_REJOINED: "leader_rejoined",
    Cause.METADATA_CHANGED: "metadata_changed",
    Cause.STATIC_MEMBER_REPLACED: "static_replaced",
    Cause.APPEND_FAILED: "append_failed",
    Cause.GROUP_TOO_LARGE: "group_too_large",
    Cause.ALL_JOINED: "all_joined",
    Cause.ASSIGNMENT_RECEIVED: "assignment_received",
    Cause.GROUP_DELETED: "group_deleted",
    Cause.TOPIC_DELETED: "topic_deleted",
    Cause.EXPIRED: "expired",
    Cause.ADMIN: ADMIN,
    Cause.SUBSCRIPTION_CHANGED: "subscription_changed",
    Cause.TOPICS_CHANGED: "topics_changed",
    Cause.SETTINGS_CHANGED: "settings_changed",
    Cause.STATE_INITIALIZED: "state_initialized",
    Cause.EXPRESSION_RESOLVED: "expression_resolved",
    Cause.RECONCILED: "reconciled",
}
"""The keyword of each cause."""

LOADED: Final = "coordinator_loaded"
STOPPING: Final = "broker_stopping"
STATIC_LEFT: Final = "static_left"
CONVERTED: Final = {"consumer": "group_upgraded", "classic": "group_downgraded"}
"""By the kind that a group has become."""
REFUSED: Final = {
    ErrorCode.FENCED_MEMBER_EPOCH: "fenced_epoch",
    ErrorCode.FENCED_INSTANCE_ID: "fenced_instance_id",
    ErrorCode.UNRELEASED_INSTANCE_ID: "unreleased_instance_id",
    ErrorCode.UNKNOWN_MEMBER_ID: "unknown_member_id",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "inconsistent_group_protocol",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "group_max_size_reached",
}
"""By the error that a request was answered with."""
KEYWORDS: Final = frozenset(
    {*REASONS.values(), LOADED, STOPPING, STATIC_LEFT, *CONVERTED.values(), *REFUSED.values(), *REASONS_OF_RECORDS}
)
"""Every reason there is."""
