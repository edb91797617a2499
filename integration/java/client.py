"""Apache Kafka's own Java client as the group suite drives it: on a JVM, through py4j, nothing compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from integration.support.client import Member, Record, TopicPartition
from integration.support.jvm import Jvm

_STRING = "org.apache.kafka.common.serialization.String"
# ConsumerRecord.toString(): one line a record, as long as no key or value holds a line feed.
_RECORD = re.compile(r"topic = (\S+), partition = (\d+), .*?offset = (\d+), .*, value = (.*)\)$")


class JavaMember:
    """A `KafkaConsumer` on a JVM."""

    def __init__(self, jvm: Jvm, consumer: Any) -> None:
        """Take over a consumer that has subscribed."""
        self.consumer = consumer
        self._jvm = jvm

    def poll(self, timeout_s: float) -> list[Record]:
        """One `poll`. The records cross over as one string, since each call on a Java object is a round trip."""
        java = self._jvm.classes.java
        records = self.consumer.poll(java.time.Duration.ofMillis(int(timeout_s * 1000)))
        if records.isEmpty():
            return []
        streams = java.util.stream
        lines = streams.StreamSupport.stream(records.spliterator(), False).map(to_string_function(self._jvm))
        return [_record(line) for line in lines.collect(streams.Collectors.joining("\n")).split("\n")]

    def assignment(self) -> frozenset[TopicPartition]:
        """The consumer's own view, read from its text: `[topic-0, topic-1]`."""
        text = self.consumer.assignment().toString().strip("[]")
        names = [name.rpartition("-") for name in text.split(", ") if name]
        return frozenset(TopicPartition(topic, int(partition)) for topic, _, partition in names)

    def commit(self) -> None:
        """`commitSync`."""
        self.consumer.commitSync()

    def close(self) -> None:
        """Close, which leaves the group."""
        self.consumer.close()


class DoomedJavaMember(JavaMember):
    """A consumer on a JVM of its own."""

    def close(self) -> None:
        """As good as `crash`: nothing of it is to be left behind."""
        self.crash()

    def crash(self) -> None:
        """SIGKILL to the JVM."""
        self._jvm.kill()


class Java:
    """The Java client of Apache Kafka 4.4.0."""

    name = "java"

    def __init__(self, jvm: Jvm) -> None:
        """Everything but the doomed members lives on `jvm`."""
        self._jvm = jvm
        self._clients = jvm.classes.org.apache.kafka.clients

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Through the admin client; waits for the answer."""
        with self._admin(bootstrap) as admin:
            optional = self._jvm.classes.java.util.Optional
            new = self._clients.admin.NewTopic(topic, optional.of(partitions), optional.empty())
            admin.createTopics([new]).all().get()

    def wait_for_leaders(self, bootstrap: str, topic: str, partitions: int) -> None:
        """By ListOffsets, which the admin client repeats while a leader is not ready."""
        java_partition = self._jvm.classes.org.apache.kafka.common.TopicPartition
        latest = self._clients.admin.OffsetSpec.latest()
        with self._admin(bootstrap) as admin:
            wanted = {java_partition(topic, partition): latest for partition in range(partitions)}
            admin.listOffsets(wanted).all().get()

    def topics(self, bootstrap: str) -> set[str]:
        """By a Metadata request for all topics."""
        with self._admin(bootstrap) as admin:
            options = self._clients.admin.ListTopicsOptions().listInternal(True)
            return set(admin.listTopics(options).names().get())

    def member_count(self, bootstrap: str, group_id: str) -> int:
        """By DescribeGroups."""
        with self._admin(bootstrap) as admin:
            described = admin.describeClassicGroups([group_id]).all().get()
            return len(described[group_id].members())

    @contextmanager
    def _admin(self, bootstrap: str) -> Iterator[Any]:
        admin = self._clients.admin.Admin.create({"bootstrap.servers": bootstrap})
        try:
            yield admin
        finally:
            admin.close()

    def produce(self, bootstrap: str, topic: str, values: Iterable[str]) -> None:
        """Through one producer; each record's own answer is looked at."""
        settings = {
            "bootstrap.servers": bootstrap,
            "key.serializer": f"{_STRING}Serializer",
            "value.serializer": f"{_STRING}Serializer",
        }
        producer = self._clients.producer.KafkaProducer(settings)
        try:
            sent = [producer.send(self._clients.producer.ProducerRecord(topic, value, value)) for value in values]
            producer.flush()
            for future in sent:
                future.get()
        finally:
            producer.close()

    def join(
        self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int | None = None
    ) -> Member:
        """Subscribe by name."""
        return JavaMember(self._jvm, _subscribed(self._jvm, bootstrap, group_id, topics, session_timeout_ms))

    def join_pattern(self, bootstrap: str, group_id: str, pattern: str) -> Member:
        """Subscribe by a `java.util.regex.Pattern`, which the client matches itself."""
        consumer = _consumer(self._jvm, bootstrap, group_id)
        consumer.subscribe(self._jvm.classes.java.util.regex.Pattern.compile(pattern))
        return JavaMember(self._jvm, consumer)

    def join_doomed(
        self, bootstrap: str, group_id: str, topics: list[str], *, session_timeout_ms: int
    ) -> DoomedJavaMember:
        """A consumer on a JVM of its own."""
        jvm = Jvm("-Xmx128m", "-XX:TieredStopAtLevel=1")
        try:
            return DoomedJavaMember(jvm, _subscribed(jvm, bootstrap, group_id, topics, session_timeout_ms))
        except BaseException:
            jvm.kill()
            raise


def _subscribed(jvm: Jvm, bootstrap: str, group_id: str, topics: list[str], session_timeout_ms: int | None) -> Any:
    settings = {} if session_timeout_ms is None else {"session.timeout.ms": str(session_timeout_ms)}
    consumer = _consumer(jvm, bootstrap, group_id, settings)
    consumer.subscribe(topics)
    return consumer


def _consumer(jvm: Jvm, bootstrap: str, group_id: str, settings: dict[str, str] | None = None) -> Any:
    return jvm.classes.org.apache.kafka.clients.consumer.KafkaConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "key.deserializer": f"{_STRING}Deserializer",
            "value.deserializer": f"{_STRING}Deserializer",
            **(settings or {}),
        }
    )


def to_string_function(jvm: Jvm) -> Any:
    """`Object::toString` as a `java.util.function.Function`: what a method reference would compile to."""
    java = jvm.classes.java
    to_class = java.lang.Class.forName
    invoke = java.lang.invoke
    signature = invoke.MethodType.methodType(to_class("java.lang.String"))
    handle = invoke.MethodHandles.publicLookup().findVirtual(to_class("java.lang.Object"), "toString", signature)
    return invoke.MethodHandleProxies.asInterfaceInstance(to_class("java.util.function.Function"), handle)


def _record(line: str) -> Record:
    match = _RECORD.search(line)
    assert match is not None, f"not as ConsumerRecord.toString() writes it: {line!r}"
    topic, partition, offset, value = match.groups()
    return Record(topic, int(partition), int(offset), value)
