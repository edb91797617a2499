"""A group that rebalances over and over, its requests made beforehand; what `bench.history` lets brokers serve."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, Protocol

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_request_frame
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.internal.consumer import ConsumerProtocolSubscription
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kshim_protocol.messages.sync_group import SyncGroupRequest
from kshim_protocol.schema import Request

WORKS = (
    ("heartbeat", 10, "heartbeat"),
    ("bare", 10, "rebalance of 10, bare"),
    ("as_clients_do", 10, "rebalance of 10, as clients do"),
    ("bare", 100, "rebalance of 100, bare"),
    ("as_clients_do", 100, "rebalance of 100, as clients do"),
)
ASSIGNMENT = bytes(40)
JOIN, SYNC, HEARTBEAT, COMMIT, FETCH, FIND = 9, 5, 4, 9, 9, 3
SIZE = struct.Struct(">i")


class Transport(Protocol):
    """A connection a member."""

    def send(self, number: int, frame: bytes) -> None:
        """One request of member `number`."""

    def receive(self, number: int) -> bytes:
        """The answer to it, with its size."""

    def work_is_done(self) -> None:
        """A piece of work is over."""


class Sockets:
    """Real connections."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self._sockets = [socket.create_connection((host, port)) for _ in range(count)]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, number: int, frame: bytes) -> None:
        """See `Transport`."""
        self._sockets[number].sendall(frame)

    def receive(self, number: int) -> bytes:
        """See `Transport`."""
        data = self._sockets[number].recv(1 << 16)
        while len(data) < 4 or len(data) < 4 + SIZE.unpack_from(data)[0]:
            data += self._sockets[number].recv(1 << 16)
        return data

    def work_is_done(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Hang up."""
        for each in self._sockets:
            each.close()


class Group:
    """A group of `size` members, member 0 of which leads. `prepare(n)` before `n` pieces of work."""

    def __init__(self, transport: Any, size: int) -> None:
        self.transport = transport
        self.group_id = f"bench-{time.monotonic_ns()}"
        self._size = size
        self._generation_id = 0
        metadata = codec(ConsumerProtocolSubscription, 1).build(ConsumerProtocolSubscription(topics=("orders",)))
        self._protocols = (JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + metadata),)
        while self._ask(0, FindCoordinatorRequest(key=self.group_id), FIND).error_code != ErrorCode.NONE:
            time.sleep(0.1)
        self._member_ids: list[str] = []
        for number in range(size):  # one after the other: each is asked to come again, and then rebalances the group
            member_id = self._ask(number, self._join(""), JOIN).member_id
            self._member_ids.append(member_id)
            transport.send(number, frame_of(number, self._join(member_id), JOIN))
            for other in range(number):
                transport.send(other, frame_of(other, self._join(self._member_ids[other]), JOIN))
            for each in range(number + 1):
                self._generation_id = answer_of(transport.receive(each), JoinGroupRequest, JOIN).generation_id
        self._joins = [frame_of(number, self._join(self._member_ids[number]), JOIN) for number in range(size)]
        self._rounds: list[tuple[list[bytes], list[bytes], list[bytes]]] = []
        self._fetches = [frame_of(number, self._fetch(number), FETCH) for number in range(size)]
        self._exchange(range(size), [frame_of(number, self._sync(number), SYNC) for number in range(size)])

    # The work

    def prepare(self, count: int) -> None:
        """Make the requests of the next `count` pieces of work: only those that carry a generation change."""
        self._rounds = []
        generation_id = self._generation_id
        members = range(self._size)
        for _ in range(count):
            beats = [frame_of(number, self._heartbeat(number, generation_id), HEARTBEAT) for number in members]
            commits = [frame_of(number, self._commit(number, generation_id), COMMIT) for number in members]
            generation_id += 1
            syncs = [frame_of(number, self._sync(number, generation_id), SYNC) for number in members]
            self._rounds.append((beats, commits, syncs))
        self._rounds.reverse()

    def heartbeat(self) -> None:
        """One Heartbeat of member 0."""
        self.transport.send(0, self._rounds[-1][0][0])
        self.transport.receive(0)

    def bare(self) -> None:
        """The leader joins; once another member is told, everybody else does; then everybody syncs."""
        beats, _, syncs = self._rounds.pop()
        self._begin(beats[1])
        self._finish(syncs)

    def as_clients_do(self) -> None:
        """The same; each member is told by a heartbeat, commits before it joins, and fetches its offset at the end."""
        beats, commits, syncs = self._rounds.pop()
        others = range(1, self._size)
        self._begin(beats[1])
        self._exchange(others, beats)
        self._exchange(others, commits)
        self._finish(syncs)
        self._exchange(range(self._size), self._fetches)
        self.transport.work_is_done()

    def _begin(self, beat: bytes) -> None:
        self.transport.send(0, self._joins[0])
        while True:
            self.transport.send(1, beat)
            if answer_of(self.transport.receive(1), HeartbeatRequest, HEARTBEAT).error_code != ErrorCode.NONE:
                return

    def _finish(self, syncs: list[bytes]) -> None:
        for number in range(1, self._size):
            self.transport.send(number, self._joins[number])
        for number in range(self._size):
            self.transport.receive(number)
        self._generation_id += 1
        self._exchange(range(self._size - 1, -1, -1), syncs)  # the leader last: it has to work out who gets what
        self.transport.work_is_done()

    def _exchange(self, members: range, frames: list[bytes]) -> None:
        for number in members:
            self.transport.send(number, frames[number])
        for number in members:
            self.transport.receive(number)

    # The requests

    def _ask(self, number: int, request: Request[Any], version: int) -> Any:
        self.transport.send(number, frame_of(number, request, version))
        return answer_of(self.transport.receive(number), type(request), version)

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=self._protocols,
        )

    def _heartbeat(self, number: int, generation_id: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group_id, generation_id=generation_id, member_id=self._member_ids[number])

    def _commit(self, number: int, generation_id: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=7, committed_metadata="")
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=self._member_ids[number],
            topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
        )

    def _fetch(self, number: int) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=(number,))
        return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=self.group_id, topics=(topic,)),))

    def _sync(self, number: int, generation_id: int = 0) -> SyncGroupRequest:
        assignments = self._member_ids if number == 0 else []
        return GroupMember(self.group_id, self._member_ids[number], generation_id or self._generation_id).sync(
            5, [(member_id, ASSIGNMENT) for member_id in assignments]
        )


def frame_of(number: int, request: Request[Any], version: int) -> bytes:
    """A request with its size, of member `number`."""
    api_key = request.info.api_key
    assert api_key is not None
    return build_request_frame(
        api_key,
        version,
        7,
        f"consumer-{number}",
        codec(type(request), version).build(request),
        flexible=API_TABLE[api_key].is_flexible(version),
    )


def answer_of(frame: bytes, request_class: type[Request[Any]], version: int) -> Any:
    """The answer in a frame."""
    api_key = request_class.info.api_key
    assert api_key is not None
    api = API_TABLE[api_key]
    response, _ = codec(api.response_class(), version).parse(frame, 9 if api.is_flexible(version) else 8)
    return response
