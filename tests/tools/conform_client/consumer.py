"""A small consumer that does everything right, but for the mistakes that it is given: `python -m ...consumer MISTAKE...`.

It is written with kshim's own protocol library, so that it starts quickly and each mistake is a line.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from typing import Any, NoReturn

from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.records.batch import iter_batches, parse_batch_header

TOPIC, GROUP = os.environ["KSHIM_TOPIC"], os.environ["KSHIM_GROUP"]
INSTANCE = os.environ["KSHIM_INSTANCE"] or None
ADDRESSES = os.environ["KSHIM_BOOTSTRAP_SERVERS"].split(",")
TIMEOUT_S, JOIN_TIMEOUT_S = 3.0, 30.0
COMMIT_EVERY_S = HEARTBEAT_EVERY_S = 0.3
SUBSCRIPTION = struct.pack(f">hih{len(TOPIC)}si", 0, 1, len(TOPIC), TOPIC.encode(), -1)
LOST_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
LOST_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
FATAL = (
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.FENCED_INSTANCE_ID,
)
GONE = (BrokerGone, TimeoutError, ProtocolError, ValueError)  # ValueError: an error code that there is not


def mistaken(mistake: str) -> bool:
    """Whether this is one of its mistakes."""
    return mistake in sys.argv[1:]


class Rejoin(Exception):
    """Another generation is to be joined."""


class Retry(Exception):
    """The same again, after a pause."""


class Consumer:
    """`consume` goes on until the process is ended."""

    def __init__(self) -> None:
        self.coordinator: Client | None = None
        self.leaders: dict[int, Client] = {}
        self.positions: dict[int, int] = {}
        self.member_id, self.generation = "", -1
        self.silent_until_s = 0.0
        self.earliest: dict[int, int] = {}
        self.is_member = self.has_positions = self.is_backward = False

    def consume(self) -> NoReturn:
        while True:
            try:
                if self.coordinator is None:
                    self.find_coordinator()
                if not self.is_member:
                    self.join()
                if not self.has_positions:
                    self.fetch_offsets()
                self.read()
            except Rejoin:
                self.is_member = self.has_positions = False
            except Retry:
                self.pause()
            except GONE as error:
                print(f"lost: {error!r}", flush=True)
                if mistaken("dies of disconnects"):
                    sys.exit(1)
                if mistaken("hangs after disconnects"):
                    time.sleep(1_000)
                self.forget_connections()
                self.pause()

    def pause(self) -> None:
        if mistaken("hammers"):  # many at once, so that it shows on a machine that is slow, too
            client = self.somebody()
            for _ in range(50):
                client.send(FindCoordinatorRequest(key=GROUP), 3)
            client.close()
        time.sleep(0.1)

    def forget_connections(self) -> None:
        for client in (self.coordinator, *self.leaders.values()):
            if client is not None:
                client.close()
        self.coordinator = None
        self.leaders.clear()

    def connect(self, address: str, timeout_s: float = TIMEOUT_S) -> Client:
        host, _, port = address.rpartition(":")
        return Client(host, int(port), client_id="small", timeout_s=timeout_s)

    def somebody(self) -> Client:
        for address in ADDRESSES:
            try:
                return self.connect(address)
            except BrokerGone:
                continue
        raise BrokerGone("no broker answers")

    def ask(self, request: Any, version: int, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The coordinator's answer."""
        assert self.coordinator is not None
        time.sleep(max(0.0, self.silent_until_s - time.monotonic()))
        self.coordinator.send(request, version)
        response = self.coordinator.receive(timeout_s)
        if response is None:
            raise TimeoutError
        if not mistaken("does not wait when throttled"):
            self.silent_until_s = time.monotonic() + response.throttle_time_ms / 1000
        return response

    def check(self, code: int, *, is_join: bool = False) -> None:
        """Raises Rejoin, Retry; exits when the error is fatal."""
        error = ErrorCode(code)
        if error is ErrorCode.NONE:
            return
        print(error.name, flush=True)
        if mistaken("dies of errors"):
            sys.exit(1)
        if error in FATAL:
            if mistaken("joins again when fenced") and error is ErrorCode.FENCED_INSTANCE_ID:
                self.member_id = ""
                raise Rejoin
            if mistaken("is silent about errors"):
                time.sleep(1_000)
            sys.exit(0 if mistaken("hides errors") else 1)
        if error in LOST_COORDINATOR and self.coordinator is not None and not mistaken("keeps its coordinator"):
            self.coordinator.close()
            self.coordinator = None
        if error in LOST_MEMBER:
            if error is ErrorCode.UNKNOWN_MEMBER_ID and not mistaken("keeps its member id"):
                self.member_id = ""
            if error is not ErrorCode.UNKNOWN_MEMBER_ID and mistaken("forgets its member id"):
                self.member_id = ""
            if not is_join:
                raise Rejoin
        raise Retry

    def find_coordinator(self) -> None:
        client = self.somebody()
        try:
            found = client.ask(FindCoordinatorRequest(key=GROUP), 3)
        finally:
            client.close()
        self.check(found.error_code)
        self.coordinator = self.connect(f"{found.host}:{found.port}")

    def join(self) -> None:
        protocols = (JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),)
        request = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=self.member_id,
            group_instance_id=INSTANCE, protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
        joined = self.ask(request, 7, timeout_s=1.0 if mistaken("is impatient") else JOIN_TIMEOUT_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            if not mistaken("ignores the member id"):
                self.member_id = joined.member_id
            raise Retry
        self.check(joined.error_code, is_join=True)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=INSTANCE,
            protocol_type="consumer", protocol_name="range", assignments=assignments(joined),
        )  # fmt: skip
        synced = self.ask(sync, 5, timeout_s=1_000 if mistaken("waits forever") else TIMEOUT_S)
        self.check(synced.error_code)
        self.positions = dict.fromkeys(partitions_of(synced.assignment), 0)
        self.is_member = True

    def fetch_offsets(self) -> None:
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=tuple(self.positions))
        found = self.ask(OffsetFetchRequest(group_id=GROUP, topics=(topic,)), 7)
        rows = [row for topic in found.topics for row in topic.partitions]
        if not mistaken("takes errors for no offset"):
            self.check(found.error_code)
            for row in rows:
                if row.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    raise Retry
                self.check(row.error_code)
        self.positions |= {row.partition_index: max(0, row.committed_offset) for row in rows if not row.error_code}
        for partition, offset in self.positions.items():
            self.earliest.setdefault(partition, offset)
        self.has_positions = True

    def read(self) -> None:
        next_commit_s = next_heartbeat_s = time.monotonic() + COMMIT_EVERY_S
        while True:
            self.fetch()
            if time.monotonic() >= next_heartbeat_s:
                self.heartbeat()
                next_heartbeat_s = time.monotonic() + HEARTBEAT_EVERY_S
            if time.monotonic() >= next_commit_s and not mistaken("never commits"):
                self.commit()
                next_commit_s = time.monotonic() + COMMIT_EVERY_S

    def heartbeat(self) -> None:
        if self.coordinator is None:
            raise Retry
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=INSTANCE
        )
        code = self.ask(request, 4, timeout_s=1.0 if mistaken("is impatient") else 8.0).error_code
        if not (mistaken("ignores heartbeats") and code):
            self.check(code)

    def commit(self) -> None:
        if self.coordinator is None:
            raise Retry
        offsets = tuple(
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
            for partition, offset in (self.earliest if self.is_backward else self.positions).items()
        )
        self.is_backward = False
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            group_instance_id=INSTANCE, topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=offsets),),
        )  # fmt: skip
        try:
            response = self.ask(request, 8)
        except GONE:
            self.is_backward = mistaken("commits backwards")
            raise
        for row in response.topics[0].partitions:
            self.check(row.error_code)

    def fetch(self) -> None:
        if not self.leaders:
            self.find_leaders()
        for partition in list(self.positions):
            client = self.leaders[partition]
            wanted = FetchPartition(
                partition=partition, fetch_offset=self.positions[partition], partition_max_bytes=1 << 20
            )
            topics = (FetchTopic(topic=TOPIC, partitions=(wanted,)),)
            answer = client.ask(FetchRequest(max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, topics=topics), 4)
            (row,) = answer.responses[0].partitions
            if row.error_code:
                raise BrokerGone(ErrorCode(row.error_code).name)  # its leaders are to be found again
            for batch in iter_batches(row.records or b""):
                header = parse_batch_header(batch)
                self.positions[partition] = header.base_offset + header.last_offset_delta + 1

    def find_leaders(self) -> None:
        client = self.somebody()
        try:
            found = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),)), 8)
        finally:
            client.close()
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in found.brokers}
        self.leaders = {
            row.partition_index: self.connect(addresses[row.leader_id]) for row in found.topics[0].partitions
        }


def assignments(joined: Any) -> tuple[SyncGroupRequestAssignment, ...]:
    """Of the two partitions one each, or both for the only member."""
    members = [member.member_id for member in joined.members]
    shares = [(0, 1)] if len(members) == 1 else [(0,), (1,), *[()] * len(members)]
    return tuple(
        SyncGroupRequestAssignment(member_id=member, assignment=assignment_of(share))
        for member, share in zip(members, shares, strict=False)
    )


def assignment_of(partitions: tuple[int, ...]) -> bytes:
    """A ConsumerProtocolAssignment."""
    return struct.pack(
        f">hih{len(TOPIC)}si{len(partitions)}ii", 0, 1, len(TOPIC), TOPIC.encode(), len(partitions), *partitions, -1
    )


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    """Its partitions."""
    at = 2 + 4 + 2 + len(TOPIC)
    (count,) = struct.unpack_from(">i", assignment, at)
    return struct.unpack_from(f">{count}i", assignment, at + 4)


if __name__ == "__main__":
    Consumer().consume()
