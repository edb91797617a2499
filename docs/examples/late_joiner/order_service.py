"""Bills orders. Several instances share the work; an offset is committed when its order is billed."""

import threading

from kafka import KafkaConsumer


class OrderService:
    def __init__(self, config, bill):
        self._config = config
        self._bill = bill
        self._stopping = threading.Event()

    def run(self):
        consumer = KafkaConsumer(
            "orders", group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False, **self._config
        )
        try:
            while not self._stopping.is_set():
                batches = consumer.poll(timeout_ms=1000)
                for orders in batches.values():
                    for order in orders:
                        self._bill(order.value.decode())
                if batches:
                    consumer.commit()
        finally:
            consumer.close()

    def stop(self):
        self._stopping.set()
