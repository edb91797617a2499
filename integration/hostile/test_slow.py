"""Clients that send a byte a second, read nothing, or have gone without a word: memory stays, others are heard."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

import pytest

from integration.hostile.crowd import Crowd, Fort
from integration.hostile.measure import MIB, Measured
from integration.hostile.test_connections import fetch_frame, produce
from kshim.tools.client import Client
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

pytestmark = pytest.mark.long

MANY = 1_000


def test_a_thousand_connections_send_a_byte_a_second(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim", {"connections.max.idle.ms": "4000"}) as fort:
        with Measured(fort, f"{MANY} connections, a byte a second each") as found, Crowd(fort.address, MANY) as crowd:
            frame = build_request_frame(18, 0, 1, "slow", b"", flexible=False)
            for at in range(10):
                began_s = time.monotonic()
                assert crowd.send(frame[at : at + 1]) == MANY  # who sends is not idle
                time.sleep(max(0.0, 1 - (time.monotonic() - began_s)))
            assert found.grown_bytes < 20 * MIB
            crowd.wait_until_closed()  # once they send no more, half a frame is no excuse
        fort.wait_until(lambda: fort.connection_count() == 0, "all of them are gone")


def test_a_thousand_connections_do_so_with_tls(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim") as fort:
        with Measured(fort, f"{MANY} half handshakes") as found, Crowd(fort.tls_address, MANY) as crowd:
            hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
            for at in range(5):
                crowd.send(hello[at : at + 1])
                time.sleep(0.5)
            crowd.wait_until_closed()
        assert found.grown_bytes < 150 * MIB
        fort.wait_until(lambda: fort.connection_count() == 0, "all of them are gone")


def test_a_thousand_connections_never_read(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim", {"kshim.unsent.max.bytes": str(100 * MIB)}) as fort:
        client = Client(*fort.address, client_id="honest", timeout_s=30)
        for _ in range(5):
            produce(client, 1_000_000)
        client.close()
        with (
            Measured(fort, f"{MANY} connections that ask for 5 MB each and read nothing") as found,
            Crowd(fort.address, MANY, receive_buffer_bytes=4_096) as crowd,
        ):
            for _ in range(3):
                crowd.send(fetch_frame())
                time.sleep(1)
        assert found.grown_bytes < 500 * MIB
        fort.wait_until(lambda: fort.connection_count() == 0, "all of them are gone")


def test_a_thousand_connections_ask_without_end_and_read_nothing(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim") as fort:
        with (
            Measured(fort, f"{MANY} connections with 1,000 small requests each, unread") as found,
            Crowd(fort.address, MANY, receive_buffer_bytes=4_096) as crowd,
        ):
            many = build_request_frame(18, 0, 1, "unread", b"", flexible=False) * 1_000
            for sock in crowd.sockets:
                sock.setblocking(False)
                with_what_fits(sock, many)
            time.sleep(3)
        assert found.grown_bytes < 600 * MIB
        fort.wait_until(lambda: fort.connection_count() == 0, "all of them are gone")


def with_what_fits(sock: socket.socket, data: bytes) -> None:
    """As much of it as the kernel takes."""
    with contextlib.suppress(BlockingIOError):
        sock.send(data)


def test_a_thousand_half_open_connections_are_closed(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim", {"connections.max.idle.ms": "3000"}) as fort:
        with Measured(fort, f"{MANY} that left behind a parked request") as found, Crowd(fort.address, MANY) as crowd:
            again = build_request_frame(18, 0, 1, "gone", b"", flexible=False)
            for sock in crowd.sockets:
                sock.sendall(fetch_for_days() + again)
                sock.shutdown(socket.SHUT_WR)
            crowd.wait_until_closed()
        assert found.grown_bytes < 100 * MIB


def fetch_for_days() -> bytes:
    """Waits for records that nobody writes, for as long as a timeout can be."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=1, topics=(FetchTopic(topic="t", partitions=(partition,)),)
    )
    return build_request_frame(1, 4, 1, "patient", codec(FetchRequest, 4).build(request), flexible=False)


def test_resets_in_the_middle_of_requests_leave_nothing(tmp_path: Path) -> None:
    with Fort(tmp_path / "kshim") as fort:
        with Measured(fort, f"{MANY} resets inside a request") as found, Crowd(fort.address, MANY) as crowd:
            crowd.send(struct.pack(">i", 1_000_000) + bytes(20_000))
            for sock in crowd.sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
        assert found.grown_bytes < 100 * MIB
        fort.wait_until(lambda: fort.connection_count() == 0, "all of them are gone")
