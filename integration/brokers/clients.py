"""Members and idempotent producers of each client library, as the tests of moving brokers drive them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, Protocol

import confluent_kafka
import kafka

from integration.java.client import Java, JavaMember
from integration.kafka_python.client import KafkaPython, KafkaPythonMember
from integration.librdkafka.client import LibrdkafkaMember
from integration.support.client import Member, Record
from integration.support.jvm import Jvm

_SEND_TIMEOUT_S = 60
_PASSING = (confluent_kafka.KafkaError._TRANSPORT, confluent_kafka.KafkaError._ALL_BROKERS_DOWN)
"""What librdkafka tells of a broker that is gone, and gets over by itself."""


class Producer(Protocol):
    """An idempotent producer with the defaults of its library."""

    def send(self, topic: str, partition: int, value: str) -> None:
        """Hand over one record; it is sent in the background."""

    def flush(self) -> None:
        """Return when all are written. Raises the error of one that was not."""

    def close(self) -> None:
        """Close."""


class TransactionalProducer(Protocol):
    """A producer with a transactional id that has found its coordinator."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, partition: int, value: str) -> None:
        """Hand over one record of it."""

    def end(self, *, how: Literal["commit", "abort"]) -> None:
        """Return when it has ended."""

    def close(self) -> None:
        """Close."""


class Library(Protocol):
    """A client library."""

    loses_the_end_of_a_transaction: bool
    """When its coordinator's broker cannot be reached, EndTxn is forgotten and the producer waits for ever."""

    def producer(self, bootstrap: str) -> Producer:
        """An idempotent producer."""

    def transactional_producer(self, bootstrap: str, transactional_id: str) -> TransactionalProducer:
        """A producer for transactions."""

    def member(self, bootstrap: str, group_id: str, topic: str) -> Member:
        """A consumer in a group, from the earliest records on."""


class _KafkaPython:
    loses_the_end_of_a_transaction = True

    def producer(self, bootstrap: str) -> Producer:
        return _KafkaPythonProducer(kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True))

    def transactional_producer(self, bootstrap: str, transactional_id: str) -> TransactionalProducer:
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        producer.init_transactions()
        return _KafkaPythonTransactions(producer)

    def member(self, bootstrap: str, group_id: str, topic: str) -> Member:
        member = KafkaPython().join(bootstrap, group_id, [topic])
        assert isinstance(member, KafkaPythonMember)
        return member


class _KafkaPythonProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._sent: list[Any] = []

    def send(self, topic: str, partition: int, value: str) -> None:
        self._sent.append(self._producer.send(topic, value.encode(), partition=partition))

    def flush(self) -> None:
        self._producer.flush(_SEND_TIMEOUT_S)
        for future in self._sent:
            future.get(_SEND_TIMEOUT_S)
        self._sent.clear()

    def close(self) -> None:
        self._producer.close()


class _KafkaPythonTransactions(_KafkaPythonProducer):
    def begin(self) -> None:
        self._producer.begin_transaction()

    def end(self, *, how: Literal["commit", "abort"]) -> None:
        if how == "commit":
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()
        self._sent.clear()


class _Java:
    loses_the_end_of_a_transaction = False

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def producer(self, bootstrap: str) -> Producer:
        return _JavaProducer(self._jvm, bootstrap)

    def transactional_producer(self, bootstrap: str, transactional_id: str) -> TransactionalProducer:
        return _JavaTransactions(self._jvm, bootstrap, transactional_id)

    def member(self, bootstrap: str, group_id: str, topic: str) -> Member:
        member = Java(self._jvm).join(bootstrap, group_id, [topic])
        assert isinstance(member, JavaMember)
        return member


class _JavaProducer:
    def __init__(self, jvm: Jvm, bootstrap: str, **more: str) -> None:
        self._classes = jvm.classes.org.apache.kafka.clients.producer
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        settings = {
            "bootstrap.servers": bootstrap,
            "key.serializer": serializer,
            "value.serializer": serializer,
            **more,
        }
        self._producer = self._classes.KafkaProducer(settings)
        self._sent: list[Any] = []
        self._box = jvm.classes.java.lang.Integer.valueOf

    def send(self, topic: str, partition: int, value: str) -> None:
        self._sent.append(self._producer.send(self._classes.ProducerRecord(topic, self._box(partition), None, value)))

    def flush(self) -> None:
        self._producer.flush()
        for future in self._sent:
            future.get()
        self._sent.clear()

    def close(self) -> None:
        self._producer.close()


class _JavaTransactions(_JavaProducer):
    def __init__(self, jvm: Jvm, bootstrap: str, transactional_id: str) -> None:
        super().__init__(jvm, bootstrap, **{"transactional.id": transactional_id})
        self._producer.initTransactions()

    def begin(self) -> None:
        self._producer.beginTransaction()

    def end(self, *, how: Literal["commit", "abort"]) -> None:
        if how == "commit":
            self._producer.commitTransaction()
        else:
            self._producer.abortTransaction()
        self._sent.clear()


class _Librdkafka:
    loses_the_end_of_a_transaction = False

    def producer(self, bootstrap: str) -> Producer:
        return _LibrdkafkaProducer(
            confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        )

    def transactional_producer(self, bootstrap: str, transactional_id: str) -> TransactionalProducer:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
        )
        producer.init_transactions(_SEND_TIMEOUT_S)
        return _LibrdkafkaTransactions(producer)

    def member(self, bootstrap: str, group_id: str, topic: str) -> Member:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        return _LibrdkafkaMember(settings, [topic])


class _LibrdkafkaMember(LibrdkafkaMember):
    def poll(self, timeout_s: float) -> list[Record]:
        self._errors = [error for error in self._errors if error.code() not in _PASSING]
        return super().poll(timeout_s)


class _LibrdkafkaProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._sent: list[Future[None]] = []

    def send(self, topic: str, partition: int, value: str) -> None:
        done: Future[None] = Future()
        self._sent.append(done)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(confluent_kafka.KafkaException(error))

        self._producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(_SEND_TIMEOUT_S) == 0, "not all was written"
        for future in self._sent:
            future.result(0)
        self._sent.clear()

    def close(self) -> None:
        self._producer.flush(_SEND_TIMEOUT_S)


class _LibrdkafkaTransactions(_LibrdkafkaProducer):
    def begin(self) -> None:
        self._producer.begin_transaction()

    def end(self, *, how: Literal["commit", "abort"]) -> None:
        if how == "commit":
            self._producer.commit_transaction(_SEND_TIMEOUT_S)
        else:
            # An abort that overtakes the partitions on their way to a new coordinator is refused, by Kafka too.
            self._producer.flush(_SEND_TIMEOUT_S)
            self._producer.abort_transaction(_SEND_TIMEOUT_S)
        self._sent.clear()


CLIENTS: dict[str, Callable[[Callable[[], Jvm]], Library]] = {
    "kafka-python": lambda jvm: _KafkaPython(),
    "java": lambda jvm: _Java(jvm()),
    "librdkafka": lambda jvm: _Librdkafka(),
}
"""By name; each is given what starts the JVM."""
