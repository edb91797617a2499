"""Takes what is ordered from stock. An order must be taken once, whatever happens to the commit of its offset."""

from collections import Counter

from aiokafka import AIOKafkaConsumer


class Warehouse:
    def __init__(self, config, stock):
        self._config = config
        self.stock = Counter(stock)
        self._taken = {}  # by partition, up to which offset; a database would keep it in the same transaction

    async def run(self):
        consumer = AIOKafkaConsumer(
            "orders", group_id="warehouse", auto_offset_reset="earliest", enable_auto_commit=False, **self._config
        )
        async with consumer:
            async for order in consumer:
                if order.offset > self._taken.get(order.partition, -1):
                    self.stock[order.value.decode()] -= 1
                    self._taken[order.partition] = order.offset
                await consumer.commit()
