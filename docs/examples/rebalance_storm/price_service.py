"""Keeps the newest price of each product in memory. A deployment starts many instances at once."""

from aiokafka import AIOKafkaConsumer


class PriceService:
    def __init__(self, config, name):
        self.prices = {}
        self._consumer_config = {
            "group_id": "prices",
            "client_id": name,
            "auto_offset_reset": "earliest",
            **config,
        }

    async def run(self):
        consumer = AIOKafkaConsumer("prices", **self._consumer_config)
        try:
            await consumer.start()
            async for record in consumer:
                self.prices[record.key.decode()] = float(record.value)
        finally:
            await consumer.stop()
