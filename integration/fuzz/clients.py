"""Those who send damaged frames, and the witness that must not notice them."""

from __future__ import annotations

import random
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

from integration.security.sasl_client import authenticate
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kshim_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import Request

Address = tuple[str, int]
Login = tuple[str, str]
ANSWER_S = 0.002
PATIENCE_S = 60
MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Witness:
    """A well-behaved member of its own group, on a connection that must never break; it follows its coordinator."""

    def __init__(self, nodes: dict[int, Address], login: Login | None = None) -> None:
        self._nodes = nodes
        self._login = login
        self._clients: dict[int, Client] = {}
        self._coordinator = min(nodes)
        self._offset = 0
        self.slowest_ms = 0.0
        """Of all its heartbeats."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        joined = self._ask_coordinator(
            JoinGroupRequest(
                group_id="witness", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000, member_id="",
                protocol_type="consumer", protocols=(protocol,),
            ),
            3,
        )  # fmt: skip
        assert joined.error_code == ErrorCode.NONE
        self._member_id, self._generation_id = joined.member_id, joined.generation_id
        mine = SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"mine")
        synced = self._ask_coordinator(
            SyncGroupRequest(
                group_id="witness", generation_id=self._generation_id, member_id=self._member_id, assignments=(mine,)
            ),
            2,
        )
        assert synced.assignment == b"mine"

    def check(self) -> None:
        """Heartbeat, commit, and read the commit back."""
        beat = HeartbeatRequest(group_id="witness", generation_id=self._generation_id, member_id=self._member_id)
        began_s = time.perf_counter()
        assert self._ask_coordinator(beat, 3).error_code == ErrorCode.NONE
        self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - began_s) * 1e3)
        self._offset += 1
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._offset, committed_metadata="", committed_leader_epoch=-1
        )
        commit = OffsetCommitRequest(
            group_id="witness", generation_id_or_member_epoch=self._generation_id, member_id=self._member_id,
            topics=(OffsetCommitRequestTopic(name="witness", partitions=(partition,)),),
        )  # fmt: skip
        answer = self._ask_coordinator(commit, 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        fetch = OffsetFetchRequest(
            group_id="witness", topics=(OffsetFetchRequestTopic(name="witness", partition_indexes=(0,)),)
        )
        fetched = self._ask_coordinator(fetch, 5)
        assert fetched.topics[0].partitions[0].committed_offset == self._offset

    def close(self) -> None:
        """End its connections."""
        for client in self._clients.values():
            client.close()

    @property
    def connection_count(self) -> int:
        """How many it has open."""
        return len(self._clients)

    def _ask_coordinator(self, request: Request[Any], version: int) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._client(self._coordinator).ask(request, version)
            if _error_of(answer) not in MOVED:
                return answer
            assert time.monotonic() < deadline, "the witness finds no coordinator"
            found = self._client(min(self._nodes)).ask(FindCoordinatorRequest(key="witness", key_type=0), 2)
            if found.error_code == ErrorCode.NONE:
                self._coordinator = found.node_id

    def _client(self, node_id: int) -> Client:
        client = self._clients.get(node_id)
        if client is None:
            client = Client(*self._nodes[node_id], client_id="witness", timeout_s=PATIENCE_S)
            self._clients[node_id] = client
            if self._login is not None:
                authenticate(client, *self._login)
        return client


def _error_of(answer: Any) -> int:
    found = getattr(answer, "error_code", None)
    if found is None:  # OffsetCommit says it of each partition
        found = answer.topics[0].partitions[0].error_code
    return int(found)


class Attacker:
    """One connection that is opened again whenever it ended, by either side.

    `context`: it shakes hands for TLS first. `login`: it authenticates, with PLAIN.
    """

    def __init__(
        self,
        address: Address,
        rng: random.Random,
        *,
        context: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        self._address = address
        self.rng = rng
        self._context = context
        self._login = login
        self._sock: socket.socket | None = None

    def send(self, data: bytes) -> None:
        """Send it, wait for a moment for an answer, and sometimes hang up."""
        try:
            if self._sock is None:
                self._sock = self._connected()
            if self.rng.random() < 0.02:
                self._sock.send(data[: self.rng.randrange(len(data))])
                self.close()
                return
            self._sock.send(data)
            if not select.select([self._sock], [], [], ANSWER_S)[0]:
                # Parked, or half a frame: now and then leave it so, and let the next bytes pile up behind it.
                if self.rng.random() < 0.5:
                    self.close()
            elif not self._sock.recv(1 << 20):
                self.close()
        except OSError:  # SSLWantRead is one too: then it begins anew
            self.close()

    def close(self) -> None:
        """Hang up, orderly or not."""
        if self._sock is not None:
            if self.rng.random() < 0.3:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._sock.close()
            self._sock = None

    def _connected(self) -> socket.socket:
        sock = socket.create_connection(self._address, timeout=PATIENCE_S)
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_hostname="localhost")
            if self._login is not None:
                _log_in(sock, *self._login)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock


def _log_in(sock: socket.socket, user: str, password: str) -> None:
    """SaslHandshake v1 and SaslAuthenticate v0, by hand: the sockets of `Client` know no TLS."""
    token = f"\0{user}\0{password}".encode()
    for key, version, body in ((17, 1, b"\0\5PLAIN"), (36, 0, struct.pack(">i", len(token)) + token)):
        frame = struct.pack(">hhih", key, version, 1, -1) + body
        sock.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", _exactly(sock.recv, 4))
        answer = _exactly(sock.recv, size)
        assert answer[4:6] == b"\0\0", f"cannot log in: {answer!r}"


def _exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = receive(count - len(data))
        if not more:
            raise ConnectionError("closed while logging in")
        data += more
    return data
