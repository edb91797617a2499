"""What bare requests cannot make: transactions, and groups of the new protocol, by the Java client on Kafka."""

from __future__ import annotations

from typing import Any

from integration.support.broker import Deadline
from integration.support.jvm import Jvm

_BYTES = "org.apache.kafka.common.serialization.ByteArray"


def commit_in_transactions(jvm: Jvm, bootstrap: str, group: str, topic: str) -> None:
    """Three transactions of one producer: offset 10 of partition 0 is committed, 99 aborted, and 20 of 1 committed."""
    clients = jvm.classes.org.apache.kafka.clients
    producer = clients.producer.KafkaProducer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": group,
            "key.serializer": f"{_BYTES}Serializer",
            "value.serializer": f"{_BYTES}Serializer",
        }
    )
    java_partition = jvm.classes.org.apache.kafka.common.TopicPartition
    metadata = clients.consumer.ConsumerGroupMetadata(group)
    try:
        producer.initTransactions()
        for partition, offset, is_committed in ((0, 10, True), (0, 99, False), (1, 20, True)):
            producer.beginTransaction()
            offsets = {java_partition(topic, partition): clients.consumer.OffsetAndMetadata(offset, "in transaction")}
            producer.sendOffsetsToTransaction(offsets, metadata)
            if is_committed:
                producer.commitTransaction()
            else:
                producer.abortTransaction()
    finally:
        producer.close()


def be_consumer_group(jvm: Jvm, bootstrap: str, group: str, topic: str) -> None:
    """A member with the new protocol (KIP-848) joins, commits and leaves."""
    consumer = java_consumer(jvm, {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"})
    try:
        consumer.subscribe([topic])
        deadline = Deadline(60)
        while consumer.assignment().isEmpty():
            consumer.poll(jvm.classes.java.time.Duration.ofMillis(100))
            deadline.check(f"{group} gets an assignment")
        consumer.commitSync()
    finally:
        consumer.close()


def java_consumer(jvm: Jvm, settings: dict[str, str]) -> Any:
    """A `KafkaConsumer` of bytes."""
    deserializers = {"key.deserializer": f"{_BYTES}Deserializer", "value.deserializer": f"{_BYTES}Deserializer"}
    return jvm.classes.org.apache.kafka.clients.consumer.KafkaConsumer({**deserializers, **settings})
