"""A group of the new protocol (KIP-848) in the demo: simulated members, one of which is slow to give up partitions, one killed."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from kshim_pipeline.demo.connection import Address, Connection
from kshim_pipeline.demo.incidents import Truth
from kshim_pipeline.errors import PipelineError
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

EPOCH_GROUP: Final = "new-protocol"
EPOCH_TOPIC: Final = "new-protocol-events"
EPOCH_PARTITIONS: Final = 8
EPOCH_SESSION_MS: Final = 3_000
_HEARTBEAT_S: Final = 0.3
_COMMIT_VERSION: Final = 9
_REBALANCE_TIMEOUT_MS: Final = 60_000
_SLOW_S: Final = 5.0
_QUIET_S: Final = 6.0
_DEADLINE_S: Final = 30.0


class EpochMember:
    """A member that heartbeats and commits, and gives up partitions with the first heartbeat after it is told to."""

    def __init__(self, address: Address, client_id: str, host: str) -> None:
        self.client_id = client_id
        self.host = host
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()
        self._address = address
        self._told: tuple[TopicPartitions, ...] = ()
        self._busy_until = 0.0
        self._position = 0
        self._is_closing = False
        self._connection: Connection | None = None
        self._task = asyncio.create_task(self._run())

    @property
    def name(self) -> str:
        """As diagnoses name it."""
        return f"{self.client_id}@{self.host}"

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.owned)

    def be_busy(self, duration_s: float) -> None:
        """Let the application not poll for a while, so that it gives up nothing. Heartbeats go on."""
        self._busy_until = time.monotonic() + duration_s

    def crash(self) -> None:
        """End at once; the broker sees a closed connection and no more."""
        self._task.cancel()
        if self._connection is not None:
            self._connection.abort()

    async def close(self) -> None:
        """Leave. Raises what made it end before."""
        self._is_closing = True
        await self._task

    async def _run(self) -> None:
        self._connection = await Connection.open(self._address, client_id=self.client_id, source=self.host)
        while not self._is_closing:
            await self._heartbeat(self._connection)
            await self._commit(self._connection)
            await asyncio.sleep(_HEARTBEAT_S)
        self.epoch = -1
        await self._heartbeat(self._connection)
        self._connection.abort()

    async def _heartbeat(self, connection: Connection) -> None:
        is_joining = self.epoch == 0
        if time.monotonic() >= self._busy_until:
            self.owned = self._told
        request = ConsumerGroupHeartbeatRequest(
            group_id=EPOCH_GROUP,
            member_id=self.client_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(EPOCH_TOPIC,),
            topic_partitions=() if is_joining else self.owned,
        )
        response = await connection.ask(request, 1)
        if response.error_code != ErrorCode.NONE:
            raise PipelineError(f"{self.client_id}: {ErrorCode(response.error_code).name} {response.error_message}")
        if self.epoch >= 0:
            self.epoch = response.member_epoch
        if response.assignment is not None:
            self._told = response.assignment.topic_partitions

    async def _commit(self, connection: Connection) -> None:
        if time.monotonic() < self._busy_until or not self.owned:
            return
        self._position += 10
        partitions = [Committed(index, self._position) for topic in self.owned for index in topic.partitions]
        member = GroupMember(EPOCH_GROUP, self.client_id, self.epoch, None)
        await connection.ask(member.commit(_COMMIT_VERSION, [(EPOCH_TOPIC, partitions)]), _COMMIT_VERSION)


async def play_epochs(bootstrap: str) -> list[Truth]:
    """One member joins while another is slow to give up partitions, and is killed later. Raises PipelineError."""
    host, _, port = bootstrap.rpartition(":")
    address = host, int(port)
    members = [EpochMember(address, "epochs-a", "127.0.251.1")]
    try:
        start_ms = _now_ms()
        await settled(members)
        members.append(EpochMember(address, "epochs-b", "127.0.251.2"))
        await settled(members)
        truths = [_truth("one_by_one_start", [], start_ms)]
        await asyncio.sleep(_QUIET_S)

        start_ms = _now_ms()
        slow = members[0]
        slow.be_busy(_SLOW_S)
        members.append(EpochMember(address, "epochs-c", "127.0.251.3"))
        await settled(members)
        truths.append(_truth("slow_poll", [slow], start_ms))
        await asyncio.sleep(_QUIET_S)

        start_ms = _now_ms()
        killed = members.pop()
        killed.crash()
        await settled(members)
        truths.append(_truth("killed", [killed], start_ms))
        await asyncio.sleep(_QUIET_S)
        start_ms = _now_ms()
        await asyncio.gather(*(member.close() for member in members))
        truths.append(_truth("scale_down", members, start_ms))
    finally:
        for member in members:
            member.crash()
    return truths


async def settled(members: list[EpochMember]) -> None:
    """Wait until all are in one epoch, and each owns its share of the partitions."""
    deadline = time.monotonic() + _DEADLINE_S
    least = EPOCH_PARTITIONS // len(members)
    while (
        len({member.epoch for member in members}) > 1
        or min(member.partition_count for member in members) < least
        or sum(member.partition_count for member in members) != EPOCH_PARTITIONS
    ):
        if time.monotonic() > deadline:
            raise PipelineError(f"the group {EPOCH_GROUP} did not become stable")
        await asyncio.sleep(_HEARTBEAT_S)


def _truth(cause: str, culprits: list[EpochMember], start_ms: int) -> Truth:
    names = frozenset(member.name for member in culprits)
    return Truth(cause, frozenset([EPOCH_GROUP]), names, start_ms, _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
