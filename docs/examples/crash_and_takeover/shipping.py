"""Ships orders. A shipment is announced before the offset of its order is committed: none is lost, and one whose
commit did not come is announced again, under the same key."""

import json
import os
import threading

from confluent_kafka import Consumer, Producer


class Shipping:
    def __init__(self, config, name):
        self._config = config
        self._name = name
        self._stopping = threading.Event()

    def run(self):
        producer = Producer(self._config)
        consumer = Consumer(
            {
                "group.id": "shipping",
                "client.id": self._name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 1000,
                **self._config,
            }
        )
        consumer.subscribe(["orders"])
        try:
            while not self._stopping.is_set():
                order = consumer.poll(0.1)
                if order is None or order.error():
                    continue
                producer.produce("shipments", key=order.key(), value=f"{self._name} ships {order.value().decode()}")
                producer.flush()
                consumer.commit(order, asynchronous=False)
        finally:
            consumer.close()

    def stop(self):
        self._stopping.set()


if __name__ == "__main__":
    Shipping(json.loads(os.environ["KAFKA"]), os.environ["NAME"]).run()
