"""The fleet's topics: made, and made larger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from kshim_pipeline.demo.connection import Address, Connection
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kshim_protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

_CREATE_TOPICS_VERSION = 5
_CREATE_PARTITIONS_VERSION = 1
_FIND_COORDINATOR_VERSION = 2
_PRODUCE_VERSION = 7
_CLOCK_TOPIC = "incidents-clock"
_TIMEOUT_MS = 30_000
_LOOK_AGAIN_S = 0.1


class Topics:
    """A connection for the requests of an administrator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, address: Address) -> Topics:
        """Connect. Raises ConnectionGone."""
        return cls(await Connection.open(address, client_id="incidents-admin"))

    async def create(self, partition_counts: Mapping[str, int]) -> None:
        """Make what is not there yet, and wait until groups can be joined."""
        topics = tuple(
            CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
            for name, count in partition_counts.items()
        )
        by_broker = (CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime"),)
        clock = CreatableTopic(
            name=_CLOCK_TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=by_broker
        )
        topics = (*topics, clock)
        request = CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)
        async with self._turn:
            response = await self._connection.ask(request, _CREATE_TOPICS_VERSION)
            fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            assert all(topic.error_code in fine for topic in response.topics), response
            deadline = time.monotonic() + _TIMEOUT_MS / 1000
            find = FindCoordinatorRequest(key="incidents", key_type=0)
            while (await self._connection.ask(find, _FIND_COORDINATOR_VERSION)).error_code != ErrorCode.NONE:
                assert time.monotonic() < deadline, "no coordinator"
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def grow(self, topic: str, count: int) -> None:
        """Let a topic have `count` partitions."""
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=topic, count=count, assignments=None),),
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        )
        async with self._turn:
            response = await self._connection.ask(request, _CREATE_PARTITIONS_VERSION)
        assert all(result.error_code == ErrorCode.NONE for result in response.results), response

    async def answer_s(self) -> float:
        """How long the broker takes to name the coordinator, which needs no work."""
        async with self._turn:
            before = time.monotonic()
            await self._connection.ask(FindCoordinatorRequest(key="incidents", key_type=0), _FIND_COORDINATOR_VERSION)
            return time.monotonic() - before

    async def broker_ms(self) -> int:
        """The time by the broker's clock, ms since 1970, as it writes it to a record."""
        batch = build_batch([Record(None, b"what time is it?", timestamp_ms=0)])
        data = TopicProduceData(name=_CLOCK_TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),))
        request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=(data,))
        async with self._turn:
            response = await self._connection.ask(request, _PRODUCE_VERSION)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE, response
        return answer.log_append_time_ms

    def close(self) -> None:
        """Drop the connection."""
        self._connection.abort()
