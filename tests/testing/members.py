"""Members of a group that do exactly what a test says: each has a connection, and sends one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from kshim.testing import AsyncKshim, Kshim
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kshim_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kshim_protocol.messages.join_group import JoinGroupRequest

T = TypeVar("T")

PATIENCE_S = 20
_VERSION = b"\0\0"


class Member:
    """`client_id` is its name. It subscribes to `topics`."""

    def __init__(
        self, address: str, group_id: str, client_id: str, instance_id: str | None, topics: Sequence[str]
    ) -> None:
        host, _, port = address.rpartition(":")
        self.client = Client(host, int(port), client_id=client_id, timeout_s=PATIENCE_S)
        self.identity = GroupMember(group_id, group_instance_id=instance_id)
        self._topics = tuple(topics)
        self.protocol_type = "consumer"
        self.owned: tuple[int, ...] = ()
        """The partitions of `orders` that it says it has when it joins, as a cooperative consumer does."""
        self.others: list[str] = []
        """The members, if this one leads."""

    @property
    def member_id(self) -> str:
        return self.identity.member_id

    @property
    def _protocols(self) -> tuple[tuple[str, bytes], ...]:
        owned = (TopicPartition(topic="orders", partitions=self.owned),) if self.owned else ()
        subscription = ConsumerProtocolSubscription(topics=self._topics, owned_partitions=owned)
        return (("range", b"\0\1" + codec(ConsumerProtocolSubscription, 1).build(subscription)),)

    def _join(self, reason: str | None) -> JoinGroupRequest:
        return self.identity.join(9, self._protocols, protocol_type=self.protocol_type, reason=reason)

    def begin_join(self, reason: str | None = None) -> None:
        """Send a JoinGroup that will be parked; a dynamic member gets its id first."""
        if not self.identity.member_id and self.identity.group_instance_id is None:
            answer = self.client.ask(self._join(reason), 9)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.identity = self.identity._replace(member_id=answer.member_id)
        self.client.send(self._join(reason), 9)

    def end_join(self) -> ErrorCode:
        """Wait for the answer of the JoinGroup."""
        answer = self.client.receive(PATIENCE_S)
        if answer.error_code == ErrorCode.NONE:
            self.identity = self.identity._replace(member_id=answer.member_id, generation_id=answer.generation_id)
            self.others = [member.member_id for member in answer.members]
        return ErrorCode(answer.error_code)

    def join(self, reason: str | None = None) -> ErrorCode:
        self.begin_join(reason)
        return self.end_join()

    def sync(self, partitions: Mapping[str, tuple[int, ...]] | None = None) -> ErrorCode:
        """Sync; a leader brings the partitions of `orders` for each member id."""
        given = [(member_id, _assignment(indexes)) for member_id, indexes in (partitions or {}).items()]
        request = replace(self.identity.sync(5, given), protocol_type=self.protocol_type)
        return ErrorCode(self.client.ask(request, 5).error_code)

    def heartbeat(self) -> ErrorCode:
        return ErrorCode(self.client.ask(self.identity.heartbeat(4), 4).error_code)

    def commit(self, topic: str, partition: int, offset: int) -> ErrorCode:
        request = self.identity.commit(8, [(topic, [Committed(partition, offset)])])
        answer: Any = self.client.ask(request, 8)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def leave(self, reason: str | None = None) -> ErrorCode:
        return ErrorCode(self.client.ask(self.identity.leave(5, reason), 5).error_code)


class EpochMember:
    """A member of the new protocol, whose id is its name. It does as it is told with the next heartbeat."""

    def __init__(
        self,
        kshim: Kshim | AsyncKshim,
        member_id: str,
        *topics: str,
        group_id: str = "billing",
        instance_id: str | None,
    ) -> None:
        host, _, port = kshim.address_of(kshim.coordinator_of(group_id)).rpartition(":")
        self.client = Client(host, int(port), client_id=f"client-{member_id}", timeout_s=PATIENCE_S)
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()

    def heartbeat(self, epoch: int | None = None) -> ErrorCode:
        """One heartbeat; 0 joins, -1 leaves, -2 leaves for now."""
        sent = self.epoch if epoch is None else epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=sent,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.topics,
            topic_partitions=() if sent == 0 else self.owned,
        )
        answer = self.client.ask(request, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = tuple(
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                )
        return ErrorCode(answer.error_code)


@contextmanager
def epoch_member(
    kshim: Kshim | AsyncKshim, member_id: str, *topics: str, instance_id: str | None = None
) -> Iterator[EpochMember]:
    """A member of the new protocol that has joined."""
    found = EpochMember(kshim, member_id, *(topics or ("orders",)), instance_id=instance_id)
    try:
        assert found.heartbeat() is ErrorCode.NONE
        yield found
    finally:
        found.client.close()


@contextmanager
def member(
    kshim: Kshim | AsyncKshim,
    client_id: str = "ann",
    *,
    group_id: str = "billing",
    instance_id: str | None = None,
    topics: Sequence[str] = ("orders",),
) -> Iterator[Member]:
    """A connected member, which has not joined."""
    address = kshim.address_of(kshim.coordinator_of(group_id))
    found = Member(address, group_id, client_id, instance_id, topics)
    try:
        yield found
    finally:
        found.client.close()


@contextmanager
def meanwhile(wait: Callable[[], T]) -> Iterator[Future[T]]:
    """Wait in another thread; what it returns is there at the end of the block."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(wait())
        except BaseException as error:
            found.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield found
    thread.join()


def _assignment(indexes: tuple[int, ...]) -> bytes:
    assigned = (TopicPartition(topic="orders", partitions=indexes),) if indexes else ()
    return _VERSION + codec(ConsumerProtocolAssignment, 0).build(
        ConsumerProtocolAssignment(assigned_partitions=assigned)
    )
