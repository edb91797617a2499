"""Connections that mean no good: they are ended, memory stays bounded, and a good client is answered all the while."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.hostile.crowd import PATIENCE_S, Crowd, Fort, Witness
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.join_group import JoinGroupRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record

MIB = 1 << 20
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""How a TLS client begins."""


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    with Fort(tmp_path_factory.mktemp("hostile") / "kshim") as found:
        yield found


def produce(client: Client, size_bytes: int) -> None:
    batch = build_batch([Record(None, bytes(size_bytes), (), int(time.time() * 1_000))])
    data = (TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=batch),)),)
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetch_frame() -> bytes:
    """All of partition 0 of `t` that one answer holds."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=(FetchTopic(topic="t", partitions=(partition,)),)
    )
    return build_request_frame(1, 4, 1, "slow", codec(FetchRequest, 4).build(request), flexible=False)


def join_frame(number: int, size_bytes: int) -> bytes:
    """The first of two members that its group waits for."""
    request = GroupMember(f"g{number}").join(
        9, [("range", bytes(size_bytes))], session_timeout_ms=6_000, rebalance_timeout_ms=6_000
    )
    return build_request_frame(11, 2, 1, "large", codec(JoinGroupRequest, 2).build(request), flexible=False)


def test_half_handshakes_are_ended_and_others_shake_hands(fort: Fort) -> None:
    with Witness(fort.address), Crowd(fort.tls_address, 300) as crowd:
        assert crowd.send(HELLO) == 300
        context = fort.authority.client_context()
        with (
            socket.create_connection(fort.tls_address, timeout=PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as good,
        ):
            crowd.wait_until_closed()
            good.sendall(build_request_frame(3, 0, 7, "good", b"\0\0\0\0", flexible=False))
            assert struct.unpack_from(">i", good.recv(1_000), 4) == (7,)


def test_plain_text_to_the_tls_port_and_tls_to_the_plain_port_are_ended(fort: Fort) -> None:
    with Witness(fort.address), Crowd(fort.tls_address, 50) as plain, Crowd(fort.address, 50) as tls:
        plain.send(build_request_frame(18, 0, 1, "plain", b"", flexible=False))
        tls.send(HELLO)
        plain.wait_until_closed()
        tls.wait_until_closed()


def test_announcing_much_and_sending_little_costs_nobody_anything(fort: Fort) -> None:
    with Witness(fort.address), Crowd(fort.address, 300) as crowd:
        before_bytes = fort.rss_bytes()
        crowd.send((100_000_000).to_bytes(4, "big") + b"\0\0")  # 30 GB in all
        client = Client(*fort.address, client_id="honest", timeout_s=PATIENCE_S)
        for _ in range(5):
            produce(client, 900_000)
            assert crowd.send(b"\0") == 300
        client.close()
        assert fort.rss_bytes() - before_bytes < 32 * MIB


def test_half_requests_that_fill_the_memory_are_cut_off(tmp_path: Path) -> None:
    config = {"queued.max.request.bytes": str(64 * MIB)}
    with Fort(tmp_path / "kshim", config) as fort, Witness(fort.address), Crowd(fort.address, 200) as crowd:
        before_bytes = fort.rss_bytes()
        for sock in crowd.sockets:
            sock.setblocking(False)
            sock.send((1_000_000).to_bytes(4, "big") + bytes(800_000))  # as much of it as the kernel takes
        for attempt in range(3):  # as clients do: who comes in such company may have to come again
            client = Client(*fort.address, client_id="honest", timeout_s=PATIENCE_S)
            try:
                produce(client, 900_000)
                break
            except BrokerGone:
                assert attempt < 2
            finally:
                client.close()
        assert fort.rss_bytes() - before_bytes < 200 * MIB
        assert "to send a request while memory was short" in fort.broker.log.read_text()


def test_slow_readers_are_cut_off_before_they_take_all_memory(tmp_path: Path) -> None:
    config = {
        "kshim.unsent.max.bytes": str(100 * MIB),
        "kshim.slow.reader.ms": "60000",
    }
    with Fort(tmp_path / "kshim", config) as fort, Witness(fort.address):
        client = Client(*fort.address, client_id="honest", timeout_s=PATIENCE_S)
        for _ in range(30):
            produce(client, 1_000_000)
        client.close()
        before_bytes = fort.rss_bytes()
        most_bytes = 0

        def some_are_cut_off() -> bool:
            nonlocal most_bytes
            most_bytes = max(most_bytes, fort.rss_bytes() - before_bytes)
            return fort.broker.log.read_text().count("unread while memory was exhausted") > cut_off_before

        for _ in range(2):  # each wave wants 600 MB
            cut_off_before = fort.broker.log.read_text().count("unread while memory was exhausted")
            with Crowd(fort.address, 20, receive_buffer_bytes=4_096) as crowd:
                crowd.send(fetch_frame())
                fort.wait_until(some_are_cut_off, "some of them are cut off")
        print(f"at most {most_bytes / MIB:.0f} MiB more")
        assert most_bytes < 400 * MIB
        fort.wait_until(lambda: fort.connection_count() <= 1, "all of them are gone")


def test_large_parked_joins_make_room_for_others_in_the_end(tmp_path: Path) -> None:
    config = {"queued.max.request.bytes": str(20 * MIB), "group.initial.rebalance.delay.ms": "3600000"}
    with Fort(tmp_path / "kshim", config) as fort, Witness(fort.address), Crowd(fort.address, 5) as crowd:
        before_bytes = fort.rss_bytes()
        senders = [
            threading.Thread(target=_send, args=(sock, join_frame(number, 10 * MIB)))
            for number, sock in enumerate(crowd.sockets)
        ]
        for sender in senders:
            sender.start()
        cut = "to send a request while memory was short"
        fort.wait_until(lambda: cut in fort.broker.log.read_text(), "the first of them are cut off")
        client = Client(*fort.address, client_id="honest", timeout_s=PATIENCE_S)
        produce(client, 900_000)
        client.close()
        for sender in senders:
            sender.join(PATIENCE_S)
        assert fort.rss_bytes() - before_bytes < 200 * MIB


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # cut off meanwhile
        sock.sendall(data)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_5000_idle_connections(tmp_path: Path, kind: str) -> None:
    config = {"kshim.authentication.max.ms": "600000"}
    with Fort(tmp_path / "kshim", config) as fort, Witness(fort.address) as witness:
        with Crowd(fort.address, 50) as few:  # what the first connections of a run cost is not theirs
            few.send(build_request_frame(18, 0, 1, "idle", b"", flexible=False))
        before_bytes, before_s = fort.rss_bytes(), time.monotonic()
        context = fort.authority.client_context()
        context.check_hostname = False
        address = fort.tls_address if kind == "tls" else fort.address
        with Crowd(address, 5_000) as crowd:
            if kind == "tls":
                crowd.sockets = [_shaken(context, sock) for sock in crowd.sockets]
            for sock in crowd.sockets:
                sock.sendall(build_request_frame(18, 0, 1, "idle", b"", flexible=False))
                assert sock.recv(10_000)
            took_s = time.monotonic() - before_s
            each_bytes = (fort.rss_bytes() - before_bytes) / 5_000
            assert fort.connection_count() == 5_001
            idle_s = cpu_s(fort)
            count = witness.count
            time.sleep(10)
            print(
                f"5000 {kind}: {each_bytes / 1024:.1f} KiB each, opened in {took_s:.1f} s, "
                f"{cpu_s(fort) - idle_s:.2f} s of CPU in 10 s idle; slowest answer to the witness {witness.slowest_ms:.0f} ms"
            )
            assert witness.count > count
            assert each_bytes < (100 if kind == "tls" else 20) * 1024
        fort.wait_until(lambda: fort.connection_count() == 1, "all of them are gone")


def _shaken(context: ssl.SSLContext, sock: socket.socket) -> socket.socket:
    return context.wrap_socket(sock, server_hostname="localhost")


def cpu_s(fort: Fort) -> float:
    import psutil

    times = psutil.Process(fort.broker.pid).cpu_times()
    return times.user + times.system
