"""Which of Kafka's broker keys may be altered while it runs. Facts measured on a live Kafka 4.4, key by key.

Kafka alters more than these: keys of a listener's certificates and log-ins, and a few others. They are read at the
start only here, and altering them is refused.
"""

from __future__ import annotations

from typing import Final

# fmt: off
CLUSTER_WIDE_KEYS: Final = frozenset({
    "background.threads", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "config.providers", "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix", "follower.fetch.last.tiered.offset.enable",
    "group.consumer.assignment.interval.ms", "group.coordinator.cached.buffer.max.bytes",
    "group.share.assignment.interval.ms", "group.streams.assignment.interval.ms", "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms", "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads",
    "log.cleanup.policy", "log.index.interval.bytes", "log.index.size.max.bytes", "log.local.retention.bytes",
    "log.local.retention.ms", "log.message.timestamp.after.max.ms", "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type", "log.preallocate", "log.remote.copy.lag.bytes", "log.remote.copy.lag.ms",
    "log.retention.bytes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms", "log.segment.bytes",
    "log.segment.delete.delay.ms", "max.connection.creation.rate", "max.connections", "max.connections.per.ip",
    "max.connections.per.ip.overrides", "max.decompressed.message.bytes", "message.max.bytes", "metric.reporters",
    "min.insync.replicas", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
    "num.replica.fetchers", "producer.id.expiration.ms", "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms", "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
    "share.coordinator.cached.buffer.max.bytes", "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
})
"""For all brokers, and for each."""

LISTENER_KEYS: Final = frozenset({"max.connections", "max.connection.creation.rate"})
"""Also behind listener.name.<name>., for one listener."""

START_KEYS: Final = frozenset({
    "cordoned.log.dirs", "listener.security.protocol.map", "listeners", "log.flush.interval.messages",
    "log.flush.interval.ms", "principal.builder.class", "sasl.enabled.mechanisms", "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites", "ssl.client.auth",
    "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
    "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
    "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
})
"""Kafka lets them be altered, and here they are read at the start."""
# fmt: on
