"""Where one behaviour is played: fresh brokers, a topic that records keep coming into, and the program."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from kshim.testing import open_brokers
from kshim.tools.client import Client
from kshim.tools.conform_client.dialogue import OWN_CLIENT_ID, Dialogue, Exchange
from kshim.tools.conform_client.model import Behaviour
from kshim.tools.conform_client.program import Program
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

if TYPE_CHECKING:
    from kshim.testing import Brokers
    from kshim_protocol.schema import Request

TOPIC = "conform-client"
GROUP = "conform-client"
INSTANCE = "conform-client-1"
PARTITIONS = (0, 1)
EARLIER_RECORDS = 10
COMMITTED_OFFSET = 5
"""The group has committed this in each partition before the program starts, so that programs that begin at the end of a
partition without a committed offset find records, too."""
_RECORD_EVERY_S = 0.25
_ANSWER_TIMEOUT_S = 20.0
_COMMIT_VERSION = 7


class Stage:
    """The scenery of one behaviour. Everything happens in one trio thread, so what it shows is never half done."""

    def __init__(self, brokers: Brokers, dialogue: Dialogue, program: Program, nursery: trio.Nursery) -> None:
        self.brokers = brokers
        self.dialogue = dialogue
        self.program = program
        self.nursery = nursery

    async def ask(self, client: Client, request: Request[Any], version: int) -> Any:
        """What a broker answers to a request of our own. Raises BrokerGone, TimeoutError."""
        return await trio.to_thread.run_sync(client.ask, request, version, abandon_on_cancel=True)

    async def client_of(self, broker: int, *, timeout_s: float = _ANSWER_TIMEOUT_S) -> Client:
        """A connection of our own. Raises BrokerGone."""
        host, _, port = self.brokers.address_of(broker).rpartition(":")

        def connect() -> Client:
            return Client(host, int(port), client_id=OWN_CLIENT_ID, timeout_s=timeout_s)

        return await trio.to_thread.run_sync(connect)

    def produce(self, count: int = 1) -> None:
        """Append records to every partition."""
        now_ms = time.time_ns() // 1_000_000
        topic = self.brokers.cluster.topics.named(TOPIC)
        assert topic is not None
        for partition in topic.partitions:
            records = (Record(None, b"record %d" % number, timestamp_ms=now_ms) for number in range(count))
            partition.append(build_batch(records))

    def ends(self) -> dict[int, int]:
        """The offset behind the last record, by partition."""
        topic = self.brokers.cluster.topics.named(TOPIC)
        assert topic is not None
        return {partition.index: partition.high_watermark for partition in topic.partitions}

    def commits(self, *, since_s: float = 0.0) -> Iterable[tuple[Exchange, int, int]]:
        """(exchange, partition, offset) of each commit of the program that was accepted, in order."""
        topic = self.brokers.cluster.topics.named(TOPIC)
        assert topic is not None
        for exchange in self.dialogue.since(since_s, "OffsetCommit"):
            if exchange.response is None:
                continue
            refused = {
                (answer.name, answer.topic_id, each.partition_index)
                for answer in exchange.response.topics
                for each in answer.partitions
                if each.error_code
            }
            for wanted in exchange.request.topics:
                if wanted.name != TOPIC and topic.topic_id != wanted.topic_id:
                    continue
                for each in wanted.partitions:
                    if (wanted.name, wanted.topic_id, each.partition_index) not in refused:
                        yield exchange, each.partition_index, each.committed_offset

    def has_committed_beyond(self, offsets: dict[int, int], *, since_s: float = 0.0) -> bool:
        """Whether a commit since then lies behind each of these."""
        newest: dict[int, int] = {}
        for _, partition, offset in self.commits(since_s=since_s):
            newest[partition] = max(offset, newest.get(partition, 0))
        return all(newest.get(partition, 0) > offset for partition, offset in offsets.items())

    async def keep_producing(self) -> None:
        """One record a partition, again and again, until cancelled."""
        while True:
            self.produce()
            await trio.sleep(_RECORD_EVERY_S)

    async def commit_earlier(self) -> None:
        """What an earlier run of the program would have committed."""
        offsets = tuple(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=COMMITTED_OFFSET, committed_metadata=""
            )
            for partition in PARTITIONS
        )
        request = OffsetCommitRequest(
            group_id=GROUP, member_id="", topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=offsets),)
        )
        client = await self.client_of(self.brokers.coordinator_of(GROUP))
        try:
            await self.ask(client, request, _COMMIT_VERSION)
        finally:
            client.close()


@asynccontextmanager
async def open_stage(behaviour: Behaviour, command: str) -> AsyncIterator[Stage]:
    """Brokers with records, and the program, not started yet. When the block is left, all of it has ended.

    Raises CommandProblem.
    """
    config = {"group.initial.rebalance.delay.ms": "0", **(behaviour.config or {})}
    async with open_brokers(behaviour.brokers, topics={TOPIC: len(PARTITIONS)}, config=config) as brokers:
        dialogue = Dialogue()
        for router in brokers.routers:
            dialogue.observe(router)
        values = {
            "bootstrap": brokers.bootstrap_servers,
            "topic": TOPIC,
            "group": GROUP,
            "instance": INSTANCE if behaviour.is_static else "",
        }
        program = Program(command, values, dialogue.changed)
        try:
            async with trio.open_nursery() as nursery:
                stage = Stage(brokers, dialogue, program, nursery)
                stage.produce(EARLIER_RECORDS)
                await stage.commit_earlier()
                nursery.start_soon(stage.keep_producing)
                try:
                    yield stage
                finally:
                    await program.stop()
                nursery.cancel_scope.cancel()
        finally:
            program.close()
