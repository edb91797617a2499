"""Kafka's configuration keys that are read here: name, type, default, allowed values, and what they mean.

Facts from AbstractKafkaConfig and LogConfig of Kafka 4.4; where the default here is another one the row says so. The
rule of a number is `low+` or `low..high`, alternatives stand behind `|`; a word stands for itself. A key without a
meaning has no effect beyond what DescribeConfigs tells; most of those are in `config_ignored.py`.
"""

from __future__ import annotations

from typing import Final, Literal

KeyType = Literal["boolean", "string", "int", "short", "long", "double", "list", "class", "password", "unknown"]
"""Kafka's own, but for "unknown": of a key that is none of its own, whose value it keeps and never shows."""


class Key:
    """One key. `default` is text as in a properties file, None where unset is a value of its own.

    `meaning` is one sentence for people; empty when the key has no effect here.
    """

    __slots__ = ("default", "meaning", "name", "rule", "type")

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

    __slots__ = ("synonym",)

    default: str

    def __init__(self, name: str, type_: KeyType, default: str, rule: str, synonym: str, meaning: str) -> None:
        super().__init__(name, type_, default, rule, meaning)
        self.synonym = synonym


# fmt: off
_BROKER_ROWS: Final[tuple[tuple[str, KeyType, str | None, str, str], ...]] = (
    ("auto.create.topics.enable",          "boolean", "true",       "",            "Whether Metadata makes a topic that is asked for and does not exist."),
    ("broker.id",                          "int",     "-1",         "",            "Older name of node.id, used when that is not set."),
    ("compression.type",                   "string",  "producer",   "uncompressed|zstd|lz4|snappy|gzip|producer", "Default of compression.type."),
    ("connections.max.idle.ms",            "long",    "600000",     "",            "A connection that moves no byte for so long is closed."),
    ("delete.topic.enable",                "boolean", "true",       "",            "Whether topics may be deleted."),
    ("fetch.max.bytes",                    "int",     "57671680",   "1024+",       "Most bytes of records in one answer to a Fetch; the first batch is always whole."),
    # Kafka's default is 3000: there a first rebalance waits for members still to come, here tests must not wait.
    ("group.initial.rebalance.delay.ms",   "int",     "0",          "0+",          "How long the first rebalance of an empty group waits for more members."),
    ("group.max.session.timeout.ms",       "int",     "1800000",    "",            "Longest session timeout that a member may ask for."),
    ("group.max.size",                     "int",     "2147483647", "1+",          "Most members of one group."),
    ("group.min.session.timeout.ms",       "int",     "6000",       "",            "Shortest session timeout that a member may ask for."),
    ("log.cleaner.backoff.ms",              "long",    "15000",      "0+",          "How often logs that may need compaction are looked for; logs of internal topics at once."),
    ("log.cleaner.dedupe.buffer.size",      "long",    "134217728",  "",            "Most memory for the keys of the log that is being compacted; a larger one is compacted in several turns."),
    ("log.cleaner.delete.retention.ms",     "long",    "86400000",   "0+",          "Default of delete.retention.ms."),
    ("log.cleaner.enable",                  "boolean", "true",       "",            "Whether logs are compacted at all."),
    ("log.cleaner.max.compaction.lag.ms",   "long",    "9223372036854775807", "1+",          "Default of max.compaction.lag.ms."),
    ("log.cleaner.min.cleanable.ratio",     "double",  "0.5",        "0..1",        "Default of min.cleanable.dirty.ratio."),
    ("log.cleaner.min.compaction.lag.ms",   "long",    "0",          "0+",          "Default of min.compaction.lag.ms."),
    ("log.cleanup.policy",                 "list",    "delete",     "compact|delete", "Default of cleanup.policy."),
    ("log.flush.interval.messages",        "long",    "9223372036854775807", "1+", "1 is as --fsync=always; another number has no effect."),
    ("log.flush.interval.ms",              "long",    None,         "",            "Is as --fsync=interval with this --fsync-interval-ms."),
    ("log.message.timestamp.after.max.ms", "long",    "3600000",    "0+",          "Default of message.timestamp.after.max.ms."),
    ("log.message.timestamp.before.max.ms", "long",   "9223372036854775807", "0+", "Default of message.timestamp.before.max.ms."),
    ("log.message.timestamp.type",         "string",  "CreateTime", "CreateTime|LogAppendTime", "Default of message.timestamp.type."),
    ("log.retention.bytes",                "long",    "-1",         "",            "Default of retention.bytes."),
    ("log.retention.check.interval.ms",     "long",    "300000",     "1+",          "How often segments that are too old or too many are looked for."),
    ("log.retention.hours",                "int",     "168",        "",            "Default of retention.ms, in hours."),
    ("log.retention.minutes",              "int",     None,         "",            "Default of retention.ms, in minutes; goes before log.retention.hours."),
    ("log.retention.ms",                   "long",    None,         "",            "Default of retention.ms; goes before the other two."),
    ("log.roll.hours",                      "int",     "168",        "1+",          "Default of segment.ms, in hours."),
    ("log.roll.ms",                         "long",    None,         "",            "Default of segment.ms; goes before log.roll.hours."),
    ("log.segment.bytes",                  "int",     "1073741824", "1048576+",    "Default of segment.bytes."),
    ("max.connections",                    "int",     "2147483647", "0+",          "Most connections at a time; further ones wait."),
    ("max.connections.per.ip",             "int",     "2147483647", "0+",          "Most connections of one address at a time; further ones are closed at once."),
    ("max.connections.per.ip.overrides",   "string",  "",           "",            "The same for single addresses, HOST:COUNT each."),
    ("max.decompressed.message.bytes",     "int",     "2147483639", "1..2147483639", "Default of max.decompressed.message.bytes."),
    ("max.incremental.fetch.session.cache.slots", "int", "1000",    "0+",          "Most fetch sessions of one node; 0: none."),
    ("max.request.partition.size.limit",   "int",     "2000",       "1+",          "Most partitions in one answer to DescribeTopicPartitions."),
    ("message.max.bytes",                  "int",     "1048588",    "0+",          "Default of max.message.bytes."),
    ("node.id",                            "int",     "1",          "0+",          "Id of this node; Kafka has no default."),
    ("num.partitions",                     "int",     "1",          "1+",          "Partitions of a topic that is made without a count."),
    ("offset.metadata.max.bytes",          "int",     "4096",       "",            "Longest metadata of a committed offset, in UTF-16 units."),
    ("offsets.retention.check.interval.ms", "long",   "600000",     "1+",          "How often expired offsets are looked for."),
    ("offsets.retention.minutes",          "int",     "10080",      "1+",          "How long a group without members keeps its offsets."),
    ("offsets.topic.num.partitions",       "int",     "50",         "1+",          "Partitions of __consumer_offsets, each a shard of the coordinator; fixed once the topic exists."),
    ("offsets.topic.segment.bytes",        "int",     "104857600",  "1+",          "segment.bytes of __consumer_offsets."),
    ("queued.max.request.bytes",           "long",    "-1",         "",            "Most bytes of requests that wait in memory; -1: the server's own limit."),
    # Kafka's default is 50; hundreds of members that reconnect at once are an ordinary test here.
    ("socket.listen.backlog.size",         "int",     "512",        "1+",          "Connections that may wait to be accepted."),
    ("socket.request.max.bytes",           "int",     "104857600",  "1+",          "Largest request; a larger one closes its connection."),
    ("transaction.max.timeout.ms",         "int",     "900000",     "1+",          "Longest transaction timeout that a producer may ask for."),
    ("transaction.state.log.num.partitions", "int",   "50",         "1+",          "Partitions of __transaction_state, each a shard of the coordinator; fixed once the topic exists."),
    ("transaction.state.log.segment.bytes", "int",    "104857600",  "1+",          "segment.bytes of __transaction_state."),
    ("transactional.id.expiration.ms",     "int",     "604800000",  "1+",          "How long a transactional id is remembered that nobody uses."),
)

_OWN_ROWS: Final[tuple[tuple[str, KeyType, str, str, str], ...]] = (
    # Kafka's too, but of its authorizer.
    ("allow.everyone.if.no.acl.found",     "boolean", "false",      "",            "Whether everybody may do everything with resources that no access rule is about."),
    ("kshim.authentication.max.ms",        "long",    "30000",      "1+",          "How long a client may take for its TLS handshake and for SASL, both together."),
    ("kshim.history.max.bytes",            "long",    "16777216",   "0+",          "About how much memory the events of the history may take."),
    ("kshim.history.max.events",           "int",     "10000",      "0+",          "Most events of the history that are kept in memory."),
    ("kshim.history.topic.enable",         "boolean", "false",      "",            "Whether the history is also written to the topic __kshim_events."),
    ("kshim.slow.reader.ms",               "long",    "60000",      "1+",          "A client that leaves more than 1 MiB of its answers untaken for so long is cut off."),
    ("kshim.slow.sender.ms",               "long",    "30000",      "1+",          "While memory for requests is short, a client that takes longer than this for one is cut off."),
    ("kshim.unsent.max.bytes",             "long",    "536870912",  "1+",          "While more bytes of answers than this wait for slow clients, the slowest are cut off at once."),
    ("super.users",                        "string",  "",           "",            "Principals that may do everything, TYPE:NAME each with semicolons between."),
)

_TOPIC_ROWS: Final[tuple[tuple[str, KeyType, str, str, str, str], ...]] = (
    ("cleanup.policy",                          "list",    "delete",     "compact|delete", "log.cleanup.policy", "delete: old records go, see retention.ms; compact: of each key the last one stays, and every record needs a key."),
    ("compression.gzip.level",                  "int",     "-1",         "-1|1..9", "compression.gzip.level", ""),
    ("compression.lz4.level",                   "int",     "9",          "1..17",   "compression.lz4.level", ""),
    ("compression.type",                        "string",  "producer",   "uncompressed|zstd|lz4|snappy|gzip|producer", "compression.type", "What batches are stored with: as they come, or unpacked and compressed anew."),
    ("compression.zstd.level",                  "int",     "3",          "-131072..22", "compression.zstd.level", ""),
    ("delete.retention.ms",                     "long",    "86400000",   "0+",      "log.cleaner.delete.retention.ms", "How long a tombstone stays after the first compaction that met it."),
    ("errors.deadletterqueue.group.enable",     "boolean", "false",      "",        "", ""),
    ("file.delete.delay.ms",                    "long",    "60000",      "0+",      "log.segment.delete.delay.ms", ""),
    ("flush.messages",                          "long",    "9223372036854775807", "1+", "log.flush.interval.messages", ""),
    ("flush.ms",                                "long",    "9223372036854775807", "0+", "log.flush.interval.ms", ""),
    ("follower.replication.throttled.replicas", "list",    "",           "",        "", ""),
    ("index.interval.bytes",                    "int",     "4096",       "0+",      "log.index.interval.bytes", ""),
    ("leader.replication.throttled.replicas",   "list",    "",           "",        "", ""),
    ("local.retention.bytes",                   "long",    "-2",         "-2+",     "log.local.retention.bytes", ""),
    ("local.retention.ms",                      "long",    "-2",         "-2+",     "log.local.retention.ms", ""),
    ("max.compaction.lag.ms",                   "long",    "9223372036854775807", "1+", "log.cleaner.max.compaction.lag.ms", "A record that is replaced is compacted away after this time at the latest."),
    ("max.decompressed.message.bytes",          "int",     "2147483639", "1..2147483639", "max.decompressed.message.bytes", "Largest record in a compressed batch."),
    ("max.message.bytes",                       "int",     "1048588",    "0+",      "message.max.bytes", "Largest record batch, after compression."),
    ("message.timestamp.after.max.ms",          "long",    "3600000",    "0+",      "log.message.timestamp.after.max.ms", "How far a record's timestamp may lie in the future."),
    ("message.timestamp.before.max.ms",         "long",    "9223372036854775807", "0+", "log.message.timestamp.before.max.ms", "How far a record's timestamp may lie in the past."),
    ("message.timestamp.type",                  "string",  "CreateTime", "CreateTime|LogAppendTime", "log.message.timestamp.type", "Whose clock stamps the records."),
    ("min.cleanable.dirty.ratio",               "double",  "0.5",        "0..1",    "log.cleaner.min.cleanable.ratio", "Share of the log that must be new since its last compaction for the next one; internal topics do not wait for it."),
    ("min.compaction.lag.ms",                   "long",    "0",          "0+",      "log.cleaner.min.compaction.lag.ms", "A record stays for at least this time, replaced or not."),
    ("min.insync.replicas",                     "int",     "1",          "1+",      "min.insync.replicas", ""),
    ("preallocate",                             "boolean", "false",      "",        "log.preallocate", ""),
    ("remote.copy.lag.bytes",                   "long",    "-1",         "-1+",     "log.remote.copy.lag.bytes", ""),
    ("remote.copy.lag.ms",                      "long",    "0",          "-1+",     "log.remote.copy.lag.ms", ""),
    ("remote.log.copy.disable",                 "boolean", "false",      "",        "", ""),
    ("remote.log.delete.on.disable",            "boolean", "false",      "",        "", ""),
    ("remote.storage.enable",                   "boolean", "false",      "",        "", ""),
    ("retention.bytes",                         "long",    "-1",         "",        "log.retention.bytes", "Size of a partition above which its oldest segments go; -1: any size."),
    ("retention.ms",                            "long",    "604800000",  "-1+",     "log.retention.ms", "Age of its newest record at which a segment goes; -1: never."),
    ("segment.bytes",                           "int",     "1073741824", "1048576+", "log.segment.bytes", "Size at which a log begins a new file."),
    ("segment.index.bytes",                     "int",     "10485760",   "4+",      "log.index.size.max.bytes", ""),
    ("segment.jitter.ms",                       "long",    "0",          "0+",      "log.roll.jitter.ms", ""),
    ("segment.ms",                              "long",    "604800000",  "1+",      "log.roll.ms", "Age of its first record at which a log begins a new file."),
    ("unclean.leader.election.enable",          "boolean", "false",      "",        "unclean.leader.election.enable", ""),
)
# fmt: on

BROKER_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _BROKER_ROWS}
OWN_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _OWN_ROWS}
"""Keys that are none of Kafka's broker; DescribeConfigs does not tell of them."""
TOPIC_KEYS: Final[dict[str, TopicKey]] = {row[0]: TopicKey(*row) for row in _TOPIC_ROWS}
