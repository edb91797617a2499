"""A broker with close limits, a crowd of bad connections, and a good one that must not notice them."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from integration.support.broker import Deadline
from integration.support.certificates import Authority
from integration.support.kafka import free_ports
from integration.support.kshim import KshimProcess
from kshim.tools.client import Client
from kshim_protocol.messages.describe_cluster import DescribeClusterRequest
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kshim_protocol.messages.leave_group import LeaveGroupRequest
from kshim_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kshim_protocol.schema import Request

PATIENCE_S = 30


class Fort:
    """`kshim serve` with a plain and a TLS listener, and one for SASL if asked. `config` goes over the defaults."""

    def __init__(
        self, folder: Path, config: dict[str, str] | None = None, *, partitions: int = 1, has_sasl: bool = False
    ) -> None:
        folder.mkdir()
        self.authority = Authority()
        self.address, self.tls_address, self.sasl_address = (("127.0.0.1", port) for port in free_ports(3))
        self.broker = KshimProcess(
            folder,
            listeners="PLAINTEXT://{}:{},SSL://{}:{}".format(*self.address, *self.tls_address)
            + (",SASL_PLAINTEXT://{}:{}".format(*self.sasl_address) if has_sasl else ""),
            config={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.server().write(folder / "server.pem")),
                "kshim.authentication.max.ms": "2000",
                "kshim.slow.reader.ms": "2000",
                "kshim.slow.sender.ms": "2000",
                **(config or {}),
            },
            topics={"t": partitions},
        )

    def __enter__(self) -> Fort:
        self.broker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.broker.kill() if error is not None else self.broker.stop()

    def rss_bytes(self) -> int:
        """Memory of its process."""
        return int(psutil.Process(self.broker.pid).memory_info().rss)

    def connection_count(self) -> int:
        """Its open sockets to clients."""
        connections = psutil.Process(self.broker.pid).net_connections("tcp")
        return sum(connection.status == psutil.CONN_ESTABLISHED for connection in connections)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Raise AssertionError when it does not come true."""
        deadline = Deadline(PATIENCE_S)
        while not condition():
            deadline.check(what)
            time.sleep(0.05)


class Witness:
    """Asks the whole time, on one connection that must never break. `slowest_ms` is for people.

    `in_group`: it is the member of a group, and its requests are heartbeats.
    """

    def __init__(self, address: tuple[str, int], *, in_group: bool = False) -> None:
        self.count = 0
        self.slowest_ms = 0.0
        self._client = Client(*address, client_id="witness", timeout_s=PATIENCE_S)
        self._request: Request[Any] = DescribeClusterRequest(include_cluster_authorized_operations=False)
        if in_group:
            self._request = self._joined()
        self._failure: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        if isinstance(self._request, HeartbeatRequest) and self._failure is None:  # the next one need not wait for it
            self._client.ask(LeaveGroupRequest(group_id="witness", member_id=self._request.member_id), 1)
        self._client.close()
        assert not self._thread.is_alive(), "the witness waits"
        if self._failure is not None:
            raise AssertionError("the witness was not answered") from self._failure

    def _joined(self) -> HeartbeatRequest:
        """What it says from now on."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        joined = self._client.ask(
            JoinGroupRequest(
                group_id="witness", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
                protocol_type="consumer", protocols=(protocol,),
            ),
            2,
        )  # fmt: skip
        assert joined.error_code == 0
        who = {"group_id": "witness", "generation_id": joined.generation_id, "member_id": joined.member_id}
        own = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        assert self._client.ask(SyncGroupRequest(assignments=(own,), **who), 1).error_code == 0
        return HeartbeatRequest(**who)

    def _run(self) -> None:
        try:
            while not self._is_over.wait(0.01) or not self.count:
                began_s = time.perf_counter()
                assert self._client.ask(self._request, 0).error_code == 0
                self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - began_s) * 1e3)
                self.count += 1
        except BaseException as failure:
            self._failure = failure


class Crowd:
    """Many connections to one address."""

    def __init__(self, address: tuple[str, int], count: int, *, receive_buffer_bytes: int = 0) -> None:
        self.sockets: list[socket.socket] = []
        for _ in range(count):
            sock = socket.socket()
            if receive_buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.settimeout(PATIENCE_S)
            self.sockets.append(sock)
            sock.connect(address)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.sockets:
            sock.close()

    def send(self, data: bytes) -> int:
        """To each; returns how many were still connected."""
        alive = 0
        for sock in self.sockets:
            try:
                sock.sendall(data)
                alive += 1
            except OSError:
                pass
        return alive

    def wait_until_closed(self) -> None:
        """By the broker, each of them; what it still sends is thrown away."""
        poll = select.poll()
        open_sockets = {sock.fileno(): sock for sock in self.sockets}
        for fd in open_sockets:
            poll.register(fd, select.POLLIN)
        deadline = Deadline(PATIENCE_S)
        while open_sockets:
            deadline.check(f"the broker closes {len(open_sockets)} further connections")
            for fd, _ in poll.poll(100):
                try:
                    is_over = not open_sockets[fd].recv(1 << 16)
                except OSError:
                    is_over = True
                if is_over:
                    poll.unregister(fd)
                    del open_sockets[fd]
