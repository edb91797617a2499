"""A consumer as applications have it, for `kshim conform-client`: automatic commits, whatever `getmany` raises ends it."""

from __future__ import annotations

import asyncio
import os

import aiokafka


async def consume() -> None:
    """Consume until ended."""
    consumer = aiokafka.AIOKafkaConsumer(
        os.environ["KSHIM_TOPIC"],
        bootstrap_servers=os.environ["KSHIM_BOOTSTRAP_SERVERS"],
        group_id=os.environ["KSHIM_GROUP"],
        group_instance_id=os.environ["KSHIM_INSTANCE"] or None,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
    )
    await consumer.start()
    while True:
        await consumer.getmany(timeout_ms=1_000)


if __name__ == "__main__":
    asyncio.run(consume())
