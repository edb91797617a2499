"""The demo's members of the new protocol share partitions, and give up none while they are busy."""

from __future__ import annotations

import asyncio
import time

from kshim.testing import Kshim
from kshim_pipeline.demo.epoch_group import EPOCH_PARTITIONS, EPOCH_TOPIC, EpochMember, settled

BUSY_S = 1.0


async def _play(bootstrap: str) -> tuple[float, list[int]]:
    """How long the second member waits for the first, which is busy, and how many partitions each has then."""
    host, _, port = bootstrap.rpartition(":")
    address = host, int(port)
    first = EpochMember(address, "a", "127.0.251.1")
    await settled([first])
    assert first.partition_count == EPOCH_PARTITIONS
    begun = time.monotonic()
    first.be_busy(BUSY_S)
    second = EpochMember(address, "b", "127.0.251.2")
    await settled([first, second])
    waited_s = time.monotonic() - begun
    counts = [first.partition_count, second.partition_count]
    await asyncio.gather(first.close(), second.close())
    return waited_s, counts


def test_a_busy_member_of_the_demo_holds_up_the_others_and_then_shares() -> None:
    with Kshim(topics={EPOCH_TOPIC: EPOCH_PARTITIONS}) as kshim:
        waited_s, counts = asyncio.run(_play(kshim.bootstrap_servers))
    assert waited_s >= BUSY_S
    assert counts == [EPOCH_PARTITIONS // 2] * 2
