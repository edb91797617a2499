"""Keeps the balance of each account. A payment that cannot be read goes to `payments.dead`, with the reason."""

import json
from collections import Counter

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


class Payments:
    def __init__(self, config):
        self._config = config
        self.balances = Counter()

    async def run(self):
        consumer = AIOKafkaConsumer(
            "payments", group_id="ledger", auto_offset_reset="earliest", enable_auto_commit=False, **self._config
        )
        producer = AIOKafkaProducer(**self._config)
        async with consumer, producer:
            async for message in consumer:
                try:
                    payment = json.loads(message.value)
                    account, amount = payment["account"], int(payment["amount"])
                except (ValueError, TypeError, KeyError) as error:
                    origin = f"{message.topic}-{message.partition}@{message.offset}"
                    headers = [("reason", repr(error).encode()), ("origin", origin.encode())]
                    await producer.send_and_wait("payments.dead", message.value, message.key, headers=headers)
                else:
                    self.balances[account] += amount
                await consumer.commit()
