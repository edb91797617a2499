"""Kafka's configuration keys that kshim reads: name, type, default, allowed values, and meaning.

Facts from AbstractKafkaConfig and LogConfig of Kafka 4.4; a different default has a comment. The rule of a
number is `low+` or `low..high`, and `|` separates alternatives. A key without a meaning is described by DescribeConfigs
but has no effect; most of those are in `ignored_keys.py`.
"""

from __future__ import annotations

from typing import Final, Literal

KeyType = Literal["boolean", "string", "int", "short", "long", "double", "list", "class", "password", "unknown"]
"""Kafka's types, and "unknown" for keys that Kafka does not know, whose values are kept and never shown."""


class Key:
    """One key. `default` is text as in a properties file, None where unset is a value of its own.

    `meaning` is one sentence; empty if the key has no effect.
    """

    def __init__(self, name: str, type_: KeyType, default: str | None, rule: str, meaning: str) -> None:
        self.name = name
        self.type = type_
        self.default = default
        self.rule = rule
        self.meaning = meaning

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"


class TopicKey(Key):
    """One key of a topic. `synonym` is the broker's key that gives its default, "" where there is none."""

    default: str

    def __init__(self, name: str, type_: KeyType, default: str, rule: str, synonym: str, meaning: str) -> None:
        super().__init__(name, type_, default, rule, meaning)
        self.synonym = synonym


# fmt: off
_BROKER_ROWS: Final[tuple[tuple[str, KeyType, str | None, str, str], ...]] = (
    ("add.partitions.to.txn.retry.backoff.max.ms", "int", "100",    "0+",          "The maximum time for which a Produce waits for the end of the transaction before it."),
    ("add.partitions.to.txn.retry.backoff.ms", "int", "20",         "1+",          "The pause between two attempts of a Produce to add its partitions to a transaction."),
    ("auto.create.topics.enable",          "boolean", "true",       "",            "Whether a Metadata request creates a topic that does not exist."),
    ("broker.id",                          "int",     "-1",         "",            "The former name of node.id, used if that is not set."),
    ("broker.rack",                        "string",  None,         "",            "The rack of every node of this process: Metadata and DescribeCluster name it, and groups of the new protocol count it in."),
    ("compression.type",                   "string",  "producer",   "uncompressed|zstd|lz4|snappy|gzip|producer", "Default of compression.type."),
    ("connections.max.idle.ms",            "long",    "600000",     "",            "A connection without traffic for this time is closed."),
    ("delete.topic.enable",                "boolean", "true",       "",            "Whether topics may be deleted."),
    ("fetch.max.bytes",                    "int",     "57671680",   "1024+",       "The maximum bytes of records in a Fetch response; the first batch is always complete."),
    ("group.consumer.assignment.interval.ms", "int",  "1000",       "0+",          "The minimum time between two target assignments of a group of the new protocol; a group may have its own."),
    ("group.consumer.assignors",           "list",    "uniform,range", "",           "The assignors of the new protocol; the first is used by groups whose members ask for none."),
    ("group.consumer.heartbeat.interval.ms", "int",   "5000",       "1+",          "The time between two heartbeats that members of the new protocol are told; a group may have its own."),
    ("group.consumer.max.assignment.interval.ms", "int", "15000",   "0+",          "The maximum of group.consumer.assignment.interval.ms, for groups with their own too."),
    ("group.consumer.max.heartbeat.interval.ms", "int", "15000",    "1+",          "The maximum of group.consumer.heartbeat.interval.ms, for groups with their own too."),
    ("group.consumer.max.session.timeout.ms", "int",  "60000",      "1+",          "The maximum of group.consumer.session.timeout.ms, for groups with their own too."),
    ("group.consumer.max.size",            "int",     "2147483647", "1+",          "The maximum number of members of a group of the new protocol."),
    ("group.consumer.migration.policy",    "string",  "bidirectional", "DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL", "Which groups with members change to the other protocol: classic ones (upgrade), those of the new protocol whose last such member leaves (downgrade), both or none."),
    ("group.consumer.min.assignment.interval.ms", "int", "0",       "0+",          "The minimum of group.consumer.assignment.interval.ms, for groups with their own too."),
    ("group.consumer.min.heartbeat.interval.ms", "int", "5000",     "1+",          "The minimum of group.consumer.heartbeat.interval.ms, for groups with their own too."),
    ("group.consumer.min.session.timeout.ms", "int",  "45000",      "1+",          "The minimum of group.consumer.session.timeout.ms, for groups with their own too."),
    ("group.consumer.session.timeout.ms",  "int",     "45000",      "1+",          "A member of the new protocol without a heartbeat for this time is removed; a group may have its own."),
    # Kafka's default is 3000, so that a first rebalance waits for further members; tests must not wait.
    ("group.initial.rebalance.delay.ms",   "int",     "0",          "0+",          "How long the first rebalance of an empty group waits for further members."),
    ("group.max.session.timeout.ms",       "int",     "1800000",    "",            "The maximum session timeout of a member."),
    ("group.max.size",                     "int",     "2147483647", "1+",          "The maximum number of members of a group."),
    ("group.min.session.timeout.ms",       "int",     "6000",       "",            "The minimum session timeout of a member."),
    ("group.share.assignment.interval.ms", "int",     "1000",       "0+",          "The minimum time between two target assignments of a share group; a group may have its own."),
    ("group.share.delivery.count.limit",   "int",     "5",          "2..10",       "How often a record is delivered to a share group before it is given up; a group may have its own."),
    ("group.share.heartbeat.interval.ms",  "int",     "5000",       "1+",          "The time between two heartbeats that members of share groups are told; a group may have its own."),
    ("group.share.max.assignment.interval.ms", "int", "15000",      "0+",          "The maximum of group.share.assignment.interval.ms, for groups with their own too."),
    ("group.share.max.delivery.count.limit", "int", "10",         "5..25",       "The maximum of group.share.delivery.count.limit, for groups with their own too."),
    ("group.share.max.heartbeat.interval.ms", "int", "15000",      "1+",          "The maximum of group.share.heartbeat.interval.ms, for groups with their own too."),
    ("group.share.max.partition.max.record.locks", "int", "4000",       "2000..10000", "The maximum of group.share.partition.max.record.locks, for groups with their own too."),
    ("group.share.max.record.lock.duration.ms", "int", "60000",      "30000..3600000","The maximum of group.share.record.lock.duration.ms, for groups with their own too."),
    ("group.share.max.session.timeout.ms", "int",     "60000",      "1+",          "The maximum of group.share.session.timeout.ms, for groups with their own too."),
    ("group.share.max.share.sessions",     "int",     "2000",       "1+",          "The maximum number of share sessions of a broker."),
    ("group.share.max.size",               "int",     "200",        "1..1000",     "The maximum number of members of a share group."),
    ("group.share.min.assignment.interval.ms", "int", "0",          "0+",          "The minimum of group.share.assignment.interval.ms, for groups with their own too."),
    ("group.share.min.delivery.count.limit", "int", "2",          "2..5",        "The minimum of group.share.delivery.count.limit, for groups with their own too."),
    ("group.share.min.heartbeat.interval.ms", "int", "5000",       "1+",          "The minimum of group.share.heartbeat.interval.ms, for groups with their own too."),
    ("group.share.min.partition.max.record.locks", "int", "100",        "100..2000",   "The minimum of group.share.partition.max.record.locks, for groups with their own too."),
    ("group.share.min.record.lock.duration.ms", "int", "15000",      "1000..30000", "The minimum of group.share.record.lock.duration.ms, for groups with their own too."),
    ("group.share.min.session.timeout.ms", "int",     "45000",      "1+",          "The minimum of group.share.session.timeout.ms, for groups with their own too."),
    ("group.share.partition.max.record.locks", "int", "2000",       "100..10000",  "The maximum number of records of a partition that a share group has in flight; a group may have its own."),
    ("group.share.record.lock.duration.ms","int",     "30000",      "1000..3600000","How long a member of a share group may hold a record; a group may have its own."),
    ("group.share.session.timeout.ms",     "int",     "45000",      "1+",          "A member of a share group without a heartbeat for this time is removed; a group may have its own."),
    ("group.streams.assignment.interval.ms", "int", "1000", "0+", "The minimum time between two target assignments of a streams group; a group may have its own."),
    ("group.streams.heartbeat.interval.ms", "int", "5000", "1+", "The time between two heartbeats that members of streams groups are told; a group may have its own."),
    ("group.streams.initial.rebalance.delay.ms", "int", "3000", "0+", "How long a streams group that had no members waits for more before it assigns tasks; a group may have its own."),
    ("group.streams.max.assignment.interval.ms", "int", "15000", "0+", "The maximum of group.streams.assignment.interval.ms, for groups with their own too."),
    ("group.streams.max.heartbeat.interval.ms", "int", "15000", "1+", "The maximum of group.streams.heartbeat.interval.ms, for groups with their own too."),
    ("group.streams.max.session.timeout.ms", "int", "60000", "1+", "The maximum of group.streams.session.timeout.ms, for groups with their own too."),
    ("group.streams.max.size", "int", "2147483647", "1+", "The maximum number of members of a streams group."),
    ("group.streams.max.standby.replicas", "int", "2", "0+", "The maximum of group.streams.num.standby.replicas, for groups with their own too."),
    ("group.streams.min.assignment.interval.ms", "int", "0", "0+", "The minimum of group.streams.assignment.interval.ms, for groups with their own too."),
    ("group.streams.min.heartbeat.interval.ms", "int", "5000", "1+", "The minimum of group.streams.heartbeat.interval.ms, for groups with their own too."),
    ("group.streams.min.session.timeout.ms", "int", "45000", "1+", "The minimum of group.streams.session.timeout.ms, for groups with their own too."),
    ("group.streams.num.standby.replicas", "int", "0", "0+", "The number of standby tasks for each task of a streams group that has state; a group may have its own."),
    ("group.streams.rack.aware.assignment.tags", "list", "", "", "The tags that clients of streams groups must have; those that lack some are told so. A group may have its own."),
    ("group.streams.session.timeout.ms", "int", "45000", "1+", "A member of a streams group without a heartbeat for this time is removed; a group may have its own."),
    ("log.cleaner.backoff.ms",              "long",    "15000",      "0+",          "The interval of checks for logs that need compaction; logs of internal topics are checked at once."),
    ("log.cleaner.dedupe.buffer.size",      "long",    "134217728",  "",            "The maximum memory for the keys of a log during compaction; a larger log is compacted in several passes."),
    ("log.cleaner.delete.retention.ms",     "long",    "86400000",   "0+",          "Default of delete.retention.ms."),
    ("log.cleaner.enable",                  "boolean", "true",       "",            "Whether logs are compacted."),
    ("log.cleaner.max.compaction.lag.ms",   "long",    "9223372036854775807", "1+",          "Default of max.compaction.lag.ms."),
    ("log.cleaner.min.cleanable.ratio",     "double",  "0.5",        "0..1",        "Default of min.cleanable.dirty.ratio."),
    ("log.cleaner.min.compaction.lag.ms",   "long",    "0",          "0+",          "Default of min.compaction.lag.ms."),
    ("log.cleanup.policy",                 "list",    "delete",     "compact|delete", "Default of cleanup.policy."),
    ("log.flush.interval.messages",        "long",    "9223372036854775807", "1+", "1 is equivalent to --fsync=always; other values have no effect."),
    ("log.flush.interval.ms",              "long",    None,         "",            "Equivalent to --fsync=interval with this --fsync-interval-ms."),
    ("log.message.timestamp.after.max.ms", "long",    "3600000",    "0+",          "Default of message.timestamp.after.max.ms."),
    ("log.message.timestamp.before.max.ms", "long",   "9223372036854775807", "0+", "Default of message.timestamp.before.max.ms."),
    ("log.message.timestamp.type",         "string",  "CreateTime", "CreateTime|LogAppendTime", "Default of message.timestamp.type."),
    ("log.retention.bytes",                "long",    "-1",         "",            "Default of retention.bytes."),
    ("log.retention.check.interval.ms",     "long",    "300000",     "1+",          "The interval of checks for segments that exceed the retention."),
    ("log.retention.hours",                "int",     "168",        "",            "Default of retention.ms, in hours."),
    ("log.retention.minutes",              "int",     None,         "",            "Default of retention.ms, in minutes; takes precedence over log.retention.hours."),
    ("log.retention.ms",                   "long",    None,         "",            "Default of retention.ms; takes precedence over the other two."),
    ("log.roll.hours",                      "int",     "168",        "1+",          "Default of segment.ms, in hours."),
    ("log.roll.ms",                         "long",    None,         "",            "Default of segment.ms; takes precedence over log.roll.hours."),
    ("log.segment.bytes",                  "int",     "1073741824", "1048576+",    "Default of segment.bytes."),
    ("max.connections",                    "int",     "2147483647", "0+",          "The maximum number of connections; further ones wait."),
    ("max.connections.per.ip",             "int",     "2147483647", "0+",          "The maximum number of connections per address; further ones are closed."),
    ("max.connections.per.ip.overrides",   "string",  "",           "",            "The same for individual addresses, as HOST:COUNT."),
    ("max.decompressed.message.bytes",     "int",     "2147483639", "1..2147483639", "Default of max.decompressed.message.bytes."),
    ("max.incremental.fetch.session.cache.slots", "int", "1000",    "0+",          "The maximum number of fetch sessions of a node; 0: none."),
    ("max.request.partition.size.limit",   "int",     "2000",       "1+",          "The maximum number of partitions in a DescribeTopicPartitions response."),
    ("message.max.bytes",                  "int",     "1048588",    "0+",          "Default of max.message.bytes."),
    ("node.id",                            "int",     "1",          "0+",          "The id of this node; Kafka has no default."),
    ("num.partitions",                     "int",     "1",          "1+",          "The number of partitions of a topic that is created without one."),
    ("offset.metadata.max.bytes",          "int",     "4096",       "",            "The maximum length of the metadata of a committed offset, in UTF-16 units."),
    ("offsets.retention.check.interval.ms", "long",   "600000",     "1+",          "The interval of checks for expired offsets."),
    ("offsets.retention.minutes",          "int",     "10080",      "1+",          "How long the offsets of a group without members are retained."),
    ("offsets.topic.num.partitions",       "int",     "50",         "1+",          "The number of partitions of __consumer_offsets, each a shard of the coordinator; fixed once the topic exists."),
    ("offsets.topic.segment.bytes",        "int",     "104857600",  "1+",          "segment.bytes of __consumer_offsets."),
    ("producer.id.expiration.ms",          "int",     "86400000",   "1+",          "How long a partition remembers the last batches of a producer that writes no more; an open transaction is never forgotten."),
    ("queued.max.request.bytes",           "long",    "-1",         "",            "The maximum bytes of requests that wait in memory; -1: the default limit of the server."),
    ("share.coordinator.snapshot.update.records.per.snapshot", "int", "500",        "0..500",      "The number of updates of a share partition's state after which the next record is a snapshot."),
    ("share.coordinator.state.topic.num.partitions", "int", "50",         "1+",          "The number of partitions of __share_group_state, each a shard of the share coordinator."),
    ("share.coordinator.state.topic.segment.bytes", "int", "104857600",  "1+",          "segment.bytes of __share_group_state."),
    # Kafka's default is 50; hundreds of members that reconnect at once are an ordinary test here.
    ("socket.listen.backlog.size",         "int",     "512",        "1+",          "The maximum number of connections that wait to be accepted."),
    ("socket.request.max.bytes",           "int",     "104857600",  "1+",          "The maximum size of a request; a larger one closes its connection."),
    ("transaction.max.timeout.ms",         "int",     "900000",     "1+",          "The maximum transaction timeout of a producer."),
    ("transaction.state.log.num.partitions", "int",   "50",         "1+",          "The number of partitions of __transaction_state, each a shard of the coordinator; fixed once the topic exists."),
    ("transaction.state.log.segment.bytes", "int",    "104857600",  "1+",          "segment.bytes of __transaction_state."),
    ("transactional.id.expiration.ms",     "int",     "604800000",  "1+",          "How long an unused transactional id is retained."),
)

_OWN_ROWS: Final[tuple[tuple[str, KeyType, str, str, str], ...]] = (
    # Kafka's too, but of its authorizer.
    ("allow.everyone.if.no.acl.found",     "boolean", "false",      "",            "Whether every operation is allowed on resources without an ACL."),
    # Kafka's too, which does not describe it.
    ("group.consumer.regex.refresh.interval.ms", "int", "600000",   "10000+",      "The interval at which regular expressions of groups are matched again, in case rights on topics have changed."),
    ("kshim.authentication.max.ms",        "long",    "30000",      "1+",          "The maximum time for the TLS handshake and SASL together."),
    ("kshim.history.max.bytes",            "long",    "16777216",   "0+",          "The approximate maximum memory for events of the history."),
    ("kshim.history.max.events",           "int",     "10000",      "0+",          "The maximum number of events of the history in memory."),
    ("kshim.history.topic.enable",         "string",  "when-asked", "true|false|when-asked", "Whether the history is also written to the topic __kshim_events: from the start, never, or once somebody has asked for that topic by name; then it is not among all topics."),
    ("kshim.share.version",                "int",     "1",          "0..1",        "The level of the feature share.version of a new data directory, which UpdateFeatures changes later."),
    ("kshim.slow.reader.ms",               "long",    "60000",      "1+",          "A client that leaves more than 1 MiB of responses unread for this time is disconnected."),
    ("kshim.slow.sender.ms",               "long",    "30000",      "1+",          "While memory for requests is short, a client that takes longer than this to send one is disconnected."),
    ("kshim.streams.version",              "int",     "1",          "0..1",        "The level of the feature streams.version of a new data directory, which UpdateFeatures changes later."),
    ("kshim.transaction.version",          "int",     "2",          "0..2",        "The level of the feature transaction.version of a new data directory, which UpdateFeatures changes later."),
    ("kshim.unsent.max.bytes",             "long",    "536870912",  "1+",          "While more bytes of responses than this wait for slow clients, the slowest are disconnected."),
    # Kafka's too, which does not describe them.
    ("share.coordinator.cold.partition.snapshot.interval.ms", "int", "300000", "1+", "A share partition whose last snapshot is as old is written again, so that what is before it can be removed."),
    ("share.coordinator.state.topic.prune.interval.ms", "int", "300000", "1+",     "The interval at which what is before the snapshots of all share partitions is removed from __share_group_state."),
    ("super.users",                        "string",  "",           "",            "Principals that may do everything, as TYPE:NAME separated by semicolons."),
)

_TOPIC_ROWS: Final[tuple[tuple[str, KeyType, str, str, str, str], ...]] = (
    ("cleanup.policy",                          "list",    "delete",     "compact|delete", "log.cleanup.policy", "delete: old records are deleted, see retention.ms; compact: the last record of each key is kept, and every record needs a key."),
    ("compression.gzip.level",                  "int",     "-1",         "-1|1..9", "compression.gzip.level", ""),
    ("compression.lz4.level",                   "int",     "9",          "1..17",   "compression.lz4.level", ""),
    ("compression.type",                        "string",  "producer",   "uncompressed|zstd|lz4|snappy|gzip|producer", "compression.type", "The codec of stored batches: that of the producer, or another one with which they are recompressed."),
    ("compression.zstd.level",                  "int",     "3",          "-131072..22", "compression.zstd.level", ""),
    ("delete.retention.ms",                     "long",    "86400000",   "0+",      "log.cleaner.delete.retention.ms", "How long a tombstone is kept after the first compaction that encountered it."),
    ("errors.deadletterqueue.group.enable",     "boolean", "false",      "",        "", ""),
    ("file.delete.delay.ms",                    "long",    "60000",      "0+",      "log.segment.delete.delay.ms", ""),
    ("flush.messages",                          "long",    "9223372036854775807", "1+", "log.flush.interval.messages", ""),
    ("flush.ms",                                "long",    "9223372036854775807", "0+", "log.flush.interval.ms", ""),
    ("follower.replication.throttled.replicas", "list",    "",           "",        "", ""),
    ("index.interval.bytes",                    "int",     "4096",       "0+",      "log.index.interval.bytes", ""),
    ("leader.replication.throttled.replicas",   "list",    "",           "",        "", ""),
    ("local.retention.bytes",                   "long",    "-2",         "-2+",     "log.local.retention.bytes", ""),
    ("local.retention.ms",                      "long",    "-2",         "-2+",     "log.local.retention.ms", ""),
    ("max.compaction.lag.ms",                   "long",    "9223372036854775807", "1+", "log.cleaner.max.compaction.lag.ms", "The maximum time until a replaced record is compacted."),
    ("max.decompressed.message.bytes",          "int",     "2147483639", "1..2147483639", "max.decompressed.message.bytes", "The maximum size of a record in a compressed batch."),
    ("max.message.bytes",                       "int",     "1048588",    "0+",      "message.max.bytes", "The maximum size of a record batch, after compression."),
    ("message.timestamp.after.max.ms",          "long",    "3600000",    "0+",      "log.message.timestamp.after.max.ms", "The maximum difference of a timestamp in the future."),
    ("message.timestamp.before.max.ms",         "long",    "9223372036854775807", "0+", "log.message.timestamp.before.max.ms", "The maximum difference of a timestamp in the past."),
    ("message.timestamp.type",                  "string",  "CreateTime", "CreateTime|LogAppendTime", "log.message.timestamp.type", "Whether timestamps are set by the producer or by the broker."),
    ("min.cleanable.dirty.ratio",               "double",  "0.5",        "0..1",    "log.cleaner.min.cleanable.ratio", "The minimum share of uncompacted data for a compaction; does not apply to internal topics."),
    ("min.compaction.lag.ms",                   "long",    "0",          "0+",      "log.cleaner.min.compaction.lag.ms", "The minimum time for which a record is not compacted."),
    ("min.insync.replicas",                     "int",     "1",          "1+",      "min.insync.replicas", ""),
    ("preallocate",                             "boolean", "false",      "",        "log.preallocate", ""),
    ("remote.copy.lag.bytes",                   "long",    "-1",         "-1+",     "log.remote.copy.lag.bytes", ""),
    ("remote.copy.lag.ms",                      "long",    "0",          "-1+",     "log.remote.copy.lag.ms", ""),
    ("remote.log.copy.disable",                 "boolean", "false",      "",        "", ""),
    ("remote.log.delete.on.disable",            "boolean", "false",      "",        "", ""),
    ("remote.storage.enable",                   "boolean", "false",      "",        "", ""),
    ("retention.bytes",                         "long",    "-1",         "",        "log.retention.bytes", "The size of a partition above which its oldest segments are deleted; -1: no limit."),
    ("retention.ms",                            "long",    "604800000",  "-1+",     "log.retention.ms", "The age of its newest record at which a segment is deleted; -1: never."),
    ("segment.bytes",                           "int",     "1073741824", "1048576+", "log.segment.bytes", "The size at which a new segment is started."),
    ("segment.index.bytes",                     "int",     "10485760",   "4+",      "log.index.size.max.bytes", ""),
    ("segment.jitter.ms",                       "long",    "0",          "0+",      "log.roll.jitter.ms", ""),
    ("segment.ms",                              "long",    "604800000",  "1+",      "log.roll.ms", "The age of its first record at which a new segment is started."),
    ("unclean.leader.election.enable",          "boolean", "false",      "",        "unclean.leader.election.enable", ""),
)
# fmt: on

BROKER_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _BROKER_ROWS}
OWN_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _OWN_ROWS}
"""Keys that are none of Kafka's broker; DescribeConfigs does not list them."""
TOPIC_KEYS: Final[dict[str, TopicKey]] = {row[0]: TopicKey(*row) for row in _TOPIC_ROWS}
