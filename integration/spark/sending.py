"""The same records sent to any broker, by the Java producer that Spark's sink uses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_CLIENTS: Final = "org.apache.kafka.clients.producer"
_SERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"


class Sent(NamedTuple):
    """A record to send. `headers` may repeat a key; None is null everywhere."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def some_records(count: int, partitions: int, first_ms: int) -> list[Sent]:
    """Every combination of null, empty and long keys and values, with none, one and several headers; ascending times."""
    keys = (b"key", None, b"", b"k" * 300)
    values = (b"value", b"\x00\xff\x00", None, b"", b"v" * 3_000)
    headers = ((), (("trace", b"1"),), (("trace", b"2"), ("trace", b""), ("none", None)))
    return [
        Sent(
            partition=at % partitions,
            timestamp_ms=first_ms + 10 * at,
            key=None if (key := keys[at % 4]) is None else key + b"%d" % at,
            value=None if (value := values[at % 5]) is None else value + b"%d" % at,
            headers=headers[at % 3],
        )
        for at in range(count)
    ]


def send(spark: SparkSession, bootstrap: str, topic: str, records: list[Sent], compression: str = "none") -> None:
    """Send in order through one producer of `compression`, and wait for every answer."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", bootstrap)
    settings.put("key.serializer", _SERIALIZER)
    settings.put("value.serializer", _SERIALIZER)
    settings.put("compression.type", compression)
    settings.put("linger.ms", "50")
    producer = getattr(jvm, f"{_CLIENTS}.KafkaProducer")(settings)
    try:
        answers = [producer.send(_java_record(jvm, topic, record)) for record in records]
        producer.flush()
        for answer in answers:
            answer.get()
    finally:
        producer.close()


def _java_record(jvm: Any, topic: str, record: Sent) -> Any:
    headers = jvm.java.util.ArrayList()
    for key, value in record.headers:
        headers.add(jvm.org.apache.kafka.common.header.internals.RecordHeader(key, value))
    made = getattr(jvm, f"{_CLIENTS}.ProducerRecord")
    return made(topic, record.partition, record.timestamp_ms, record.key, record.value, headers)


def an_hour_ago_ms() -> int:
    """A whole second: brokers reject times far from their own."""
    return (int(time.time()) - 3_600) * 1_000
