"""Writes one invoice for each order: invoices and offsets are committed in the same transaction."""

import threading

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Invoicing:
    def __init__(self, config, name, make_invoice):
        self._config = config
        self._name = name
        self._make_invoice = make_invoice
        self._stopping = threading.Event()

    def run(self):
        """Returns "stopped", or "fenced" when another instance has taken over."""
        producer = Producer({"transactional.id": "invoicing", **self._config})
        consumer = Consumer(
            {
                "group.id": "invoicing",
                "client.id": self._name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **self._config,
            }
        )
        try:
            producer.init_transactions()
            consumer.subscribe(["orders"])
            while not self._stopping.is_set():
                orders = [order for order in consumer.consume(10, timeout=0.1) if not order.error()]
                if orders:
                    self._invoice(orders, consumer, producer)
        except KafkaException as error:
            if error.args[0].code() not in FENCED:
                raise
            return "fenced"
        finally:
            consumer.close()
        return "stopped"

    def _invoice(self, orders, consumer, producer):
        producer.begin_transaction()
        for order in orders:
            producer.produce("invoices", self._make_invoice(order.value().decode()))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        producer.commit_transaction()

    def stop(self):
        self._stopping.set()
