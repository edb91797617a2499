"""Indexes products for search. Each pod keeps its partitions over a restart: it is a static member, by its name."""

import threading

from confluent_kafka import Consumer


class SearchIndexer:
    def __init__(self, config, pod, index):
        self._index = index
        self._stopping = threading.Event()
        self._config = {
            "group.id": "search-indexer",
            "group.instance.id": pod,
            "client.id": pod,
            "session.timeout.ms": 45_000,  # a restart has to be done by then
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }

    def run(self):
        consumer = Consumer(self._config)
        consumer.subscribe(["products"])
        try:
            while not self._stopping.is_set():
                product = consumer.poll(0.1)
                if product is None or product.error():
                    continue
                self._index(product.value().decode())
                consumer.commit(product, asynchronous=False)
        finally:
            consumer.close()  # a static member does not leave the group

    def stop(self):
        self._stopping.set()
