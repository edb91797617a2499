"""The causes that are told apart, and who is responsible for each."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Subject(Enum):
    """What caused it: one client, several, all of the group, everything on a host, or the broker."""

    CLIENT = "client"
    CLIENTS = "clients"
    GROUP = "group"
    HOST = "host"
    BROKER = "broker"

    def __str__(self) -> str:
        return self.value


class Cause(Enum):
    """Why a group was disturbed: what an operator would write in a report."""

    DEPLOY = "deploy", Subject.GROUP
    ASSIGNOR_CHANGED = "assignor_changed", Subject.GROUP
    RESTART = "restart", Subject.CLIENT
    STATIC_RESTART = "static_restart", Subject.CLIENT
    STATIC_STOPPED = "static_stopped", Subject.CLIENT
    CRASH_LOOP = "crash_loop", Subject.CLIENT
    FLAPPING = "flapping", Subject.CLIENT
    SLOW_POLL = "slow_poll", Subject.CLIENT
    SLOW_LEADER = "slow_leader", Subject.CLIENT
    KILLED = "killed", Subject.CLIENT
    PAUSED = "paused", Subject.CLIENT
    HOST_STALLED = "host_stalled", Subject.HOST
    NETWORK_CUT = "network_cut", Subject.HOST
    BROKER_RESTARTED = "broker_restarted", Subject.BROKER
    ONE_BY_ONE_START = "one_by_one_start", Subject.GROUP
    SCALE_UP = "scale_up", Subject.CLIENTS
    SCALE_DOWN = "scale_down", Subject.CLIENTS
    SHARED_GROUP_ID = "shared_group_id", Subject.CLIENTS
    DUPLICATE_INSTANCE = "duplicate_instance", Subject.CLIENT
    PARTITIONS_ADDED = "partitions_added", Subject.GROUP
    TOPIC_CREATED = "topic_created", Subject.GROUP
    SUBSCRIPTION_CHANGED = "subscription_changed", Subject.CLIENT
    REBALANCE_ENFORCED = "rebalance_enforced", Subject.CLIENT
    PROTOCOL_CHANGED = "protocol_changed", Subject.GROUP
    SETTINGS_CHANGED = "settings_changed", Subject.GROUP
    LOCK_TIMEOUT = "lock_timeout", Subject.CLIENT
    POISON_RECORD = "poison_record", Subject.GROUP
    RECORDS_RELEASED = "records_released", Subject.CLIENT
    RECORDS_HELD = "records_held", Subject.CLIENT
    REMOVED_BY_ADMIN = "removed_by_admin", Subject.GROUP
    UNKNOWN = "unknown", Subject.CLIENTS

    def __init__(self, keyword: str, subject: Subject) -> None:
        self.keyword = keyword
        self.subject = subject

    def __str__(self) -> str:
        return self.keyword


UPGRADED, DOWNGRADED = "group_upgraded", "group_downgraded"
TOLD_BY_BROKER: Final = {
    UPGRADED: (Cause.PROTOCOL_CHANGED, "a member of the new protocol joined a classic group, which went over to that"),
    DOWNGRADED: (
        Cause.PROTOCOL_CHANGED,
        "the last member of the new protocol was gone, and the group is a classic one",
    ),
    "subscription_changed": (Cause.SUBSCRIPTION_CHANGED, "it changed what it subscribes to"),
    "topics_changed": (Cause.PARTITIONS_ADDED, "topics of the group were made, deleted or got partitions"),
    "settings_changed": (Cause.SETTINGS_CHANGED, "the settings with which its tasks are assigned are others"),
    "expression_resolved": (Cause.TOPIC_CREATED, "a regular expression stands for other topics"),
}
"""Reasons that leave no doubt, for in the new group protocol the broker knows subscriptions, topics, and who speaks which protocol."""
