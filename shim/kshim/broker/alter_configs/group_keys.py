"""The configuration keys of groups (KIP-848, KIP-932, KIP-1071): facts from GroupConfig of Kafka 4.4.

They are read by `kshim.config.group_settings`. Those without a meaning there are kept and described, and have no effect.
"""

from __future__ import annotations

from typing import Final

from kshim.config.keys import Key, KeyType

_MEANINGS: Final = {
    "consumer.assignment.interval.ms": "The minimum time between two target assignments.",
    "consumer.heartbeat.interval.ms": "The time between two heartbeats that members are told.",
    "consumer.session.timeout.ms": "A member without a heartbeat for this time is removed.",
}


class GroupKey(Key):
    """One key of a group. `synonym` is the broker's key that gives its default, "" where there is none.

    `lowest` and `highest` are the broker's keys that bound it, "" where there is none. `is_internal`: it is described
    only where it is set, and so is its synonym nowhere else.
    """

    def __init__(
        self,
        name: str,
        type_: KeyType,
        default: str,
        rule: str,
        synonym: str,
        lowest: str,
        highest: str,
        *,
        is_internal: bool = False,
    ) -> None:
        super().__init__(name, type_, default, rule, _MEANINGS.get(name, ""))
        self.is_internal = is_internal
        self.synonym = synonym
        self.lowest = lowest
        self.highest = highest


# fmt: off
_ROWS: Final[tuple[tuple[str, KeyType, str, str, str, str, str], ...]] = (
    ("consumer.assignment.interval.ms",           "int",     "1000",  "0+",    "group.consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("consumer.heartbeat.interval.ms",            "int",     "5000",  "1+",    "group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("consumer.session.timeout.ms",               "int",     "45000", "1+",    "group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("errors.deadletterqueue.copy.record.enable", "boolean", "false", "",      "", "", ""),
    ("errors.deadletterqueue.topic.name",         "string",  "",      "",      "", "", ""),
    ("share.assignment.interval.ms",              "int",     "1000",  "0+",    "group.share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("share.auto.offset.reset",                   "string",  "latest", "",     "", "", ""),
    ("share.delivery.count.limit",                "int",     "5",     "2+",    "group.share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ("share.heartbeat.interval.ms",               "int",     "5000",  "1+",    "group.share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("share.isolation.level",                     "string",  "read_uncommitted", "read_committed|read_uncommitted", "", "", ""),
    ("share.partition.max.record.locks",          "int",     "2000",  "100+",  "group.share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    ("share.record.lock.duration.ms",             "int",     "30000", "1000+", "group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("share.renew.acknowledge.enable",            "boolean", "true",  "",      "", "", ""),
    ("share.session.timeout.ms",                  "int",     "45000", "1+",    "group.share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("streams.assignment.interval.ms",            "int",     "1000",  "0+",    "group.streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ("streams.assignor.name",                     "string",  "sticky", "",     "group.streams.assignors", "", ""),
    ("streams.heartbeat.interval.ms",             "int",     "5000",  "1+",    "group.streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("streams.initial.rebalance.delay.ms",        "int",     "3000",  "0+",    "group.streams.initial.rebalance.delay.ms", "", ""),
    ("streams.num.standby.replicas",              "int",     "0",     "0+",    "group.streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
    ("streams.rack.aware.assignment.tags",        "list",    "",      "",      "group.streams.rack.aware.assignment.tags", "", ""),
    ("streams.session.timeout.ms",                "int",     "45000", "1+",    "group.streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
)

_INTERNAL_ROWS: Final[tuple[tuple[str, KeyType, str, str, str, str, str], ...]] = (
    ("consumer.assignor.offload.enable",          "boolean", "true",  "",      "group.consumer.assignor.offload.enable", "", ""),
    ("share.assignor.offload.enable",             "boolean", "true",  "",      "group.share.assignor.offload.enable", "", ""),
    ("streams.acceptable.recovery.lag",           "long",    "10000", "0+",    "group.streams.acceptable.recovery.lag", "", ""),
    ("streams.assignor.offload.enable",           "boolean", "true",  "",      "group.streams.assignor.offload.enable", "", ""),
    ("streams.num.warmup.replicas",               "int",     "2",     "0+",    "group.streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"),
    ("streams.task.offset.interval.ms",           "int",     "60000", "1+",    "group.streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""),
)
# fmt: on

GROUP_BOUNDS: Final = {"group.streams.max.warmup.replicas": "20", "group.streams.min.task.offset.interval.ms": "15000"}
"""Those that are internal, too, and so no keys of a broker here."""

GROUP_KEYS: Final[dict[str, GroupKey]] = {row[0]: GroupKey(*row) for row in _ROWS} | {
    row[0]: GroupKey(*row, is_internal=True) for row in _INTERNAL_ROWS
}
"""By name."""
