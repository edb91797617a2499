"""`Kshim`: its start, reset and end, and nodes that are killed, restarted and moved."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kafka
import pytest
import trio

from kshim.testing import Kshim
from kshim.tools.client import BrokerGone
from kshim_protocol.errors import ErrorCode, KafkaError
from tests.testing.members import member


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def serve_one_request(sock: socket.socket) -> None:
    """ApiVersions v0, so that the connection is known to have been accepted."""
    sock.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
    assert sock.recv(1 << 16)


def read_all(sock: socket.socket) -> None:
    while sock.recv(1 << 16):
        pass


# The end of the block


def test_after_the_block_everything_says_that_the_brokers_are_closed() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        group = kshim.group("g")
    for call in (
        lambda: kshim.produce("orders", "x"),
        lambda: kshim.records("orders"),
        kshim.reset,
        lambda: kshim.kill_node(1),
        lambda: group.state,
        lambda: kshim.call(lambda: 1),
    ):
        with pytest.raises(RuntimeError, match="these brokers were closed when their block was left"):
            call()


def test_before_the_block_brokers_are_not_there() -> None:
    kshim = Kshim()
    calls: list[Callable[[], object]] = [kshim.reset, lambda: kshim.bootstrap_servers, lambda: kshim.clock.now]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"have not been started: use `with Kshim\(\.\.\.\) as kshim:`"):
            call()
    with kshim:
        pass
    with pytest.raises(RuntimeError, match="were started before"):
        kshim.__enter__()


def test_nothing_is_left_behind() -> None:
    before = threading.enumerate()
    with Kshim(3) as kshim:
        connected(kshim.address_of(1)).close()
    assert threading.enumerate() == before
    with pytest.raises(OSError, match="refused"):
        connected(kshim.bootstrap_servers.split(",")[0])


def test_nothing_is_left_behind_by_an_asynchronous_block_that_is_cancelled() -> None:
    async def under_trio() -> None:
        with trio.move_on_after(0.01):
            async with Kshim():
                await trio.sleep_forever()

    async def under_asyncio() -> None:
        async def use() -> None:
            async with Kshim():
                await asyncio.get_running_loop().create_future()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(use(), 0.01)

    async def not_at_all() -> None:
        with pytest.raises(KafkaError):
            await Kshim(topics={"a/b": 1}).__aenter__()

    before = threading.enumerate()
    for run in (under_trio, not_at_all):
        trio.run(run)
    for run in (under_asyncio, not_at_all):
        asyncio.run(run())
    assert threading.enumerate() == before


def fail(kshim: Kshim) -> None:
    """What follows from a defect."""
    kshim.call(lambda: kshim.cluster.defect(ZeroDivisionError("a defect"), "a request"))


def test_a_defect_of_kshim_fails_the_test(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ExceptionGroup, match="kshim failed while it served this block") as failed, Kshim() as kshim:
        fail(kshim)
    assert failed.group_contains(ZeroDivisionError, match="a defect")
    assert [str(error) for error in kshim.defects] == ["a defect"]
    assert "Failed while handling 'a request'" in caplog.text


def test_a_defect_before_a_reset_counts_as_well() -> None:
    with pytest.raises(ExceptionGroup), Kshim() as kshim:
        fail_and_reset(kshim)


def fail_and_reset(kshim: Kshim) -> None:
    fail(kshim)
    kshim.reset()


def test_a_defect_is_noted_in_what_the_test_itself_has_raised() -> None:
    with pytest.raises(LookupError) as failed, Kshim() as kshim:
        fail_and_raise(kshim)
    assert any("a defect" in note for note in failed.value.__notes__)


def fail_and_raise(kshim: Kshim) -> None:
    fail(kshim)
    kshim.records("none")


def test_the_broker_writes_to_the_log_of_the_test(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kshim"), Kshim() as kshim, member(kshim) as ann:
        assert ann.join() == ErrorCode.NONE
    assert "Preparing to rebalance group billing in state PreparingRebalance" in caplog.text


# Calls


def test_a_call_runs_in_the_thread_of_the_brokers_and_may_call_again() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        assert kshim.call(threading.get_ident) != threading.get_ident()
        assert kshim.call(lambda: kshim.produce("orders", "x"))[0].offset == 0
        with pytest.raises(ZeroDivisionError):
            kshim.call(lambda: 1 // 0)


def test_calls_are_plain_under_asyncio_and_trio() -> None:
    async def run() -> None:
        async with Kshim(topics={"orders": 1}) as kshim:
            assert kshim.produce("orders", "x")[0].offset == 0
            kshim.stop_node(1)
            kshim.start_node(1)

    asyncio.run(run())
    trio.run(run)


# Reset


def test_a_reset_leaves_nothing_but_the_topics_of_the_start() -> None:
    with Kshim(2, topics={"orders": 1}) as kshim:
        addresses = kshim.bootstrap_servers
        kshim.create_topic("extra")
        kshim.produce("orders", "x")
        with member(kshim) as ann:
            assert ann.join() == ErrorCode.NONE
            assert ann.sync() == ErrorCode.NONE
            assert ann.commit("orders", 0, 1) == ErrorCode.NONE
            kshim.stop_node(2)
            kshim.clock.advance(60)
            kshim.reset()
            with pytest.raises(BrokerGone):
                ann.heartbeat()
        assert kshim.bootstrap_servers == addresses
        assert (kshim.records("orders"), kshim.group_ids(), kshim.offsets("billing"), kshim.live) == (
            [],
            [],
            {},
            [1, 2],
        )
        assert kshim.group("billing").rebalances == ()
        with pytest.raises(LookupError, match="there is no topic extra"):
            kshim.records("extra")
        admin = kafka.KafkaAdminClient(bootstrap_servers=addresses)
        assert admin.list_topics() == ["orders"]
        admin.close()
        assert kshim.defects == []


def test_a_client_that_connects_while_brokers_are_reset_is_served() -> None:
    with Kshim() as kshim:
        for _ in range(20):
            sock = connected(kshim.bootstrap_servers)  # perhaps not accepted yet
            kshim.reset()
            sock.close()
            with connected(kshim.bootstrap_servers) as again:
                serve_one_request(again)


def test_a_reset_takes_milliseconds() -> None:
    with Kshim(3, topics={"orders": 6}) as kshim:
        took_s = []
        for _ in range(10):
            began = time.perf_counter()
            kshim.reset()
            took_s.append(time.perf_counter() - began)
    assert min(took_s) < 0.05


def test_brokers_with_a_directory_are_not_reset(tmp_path: Path) -> None:
    with Kshim(data_dir=tmp_path) as kshim, pytest.raises(RuntimeError, match="leave data_dir out"):
        kshim.reset()


# Nodes


def test_a_broker_that_is_killed_resets_its_connections() -> None:
    with Kshim(2, topics={"orders": 2}) as kshim:
        with connected(kshim.address_of(1)) as sock, connected(kshim.address_of(2)) as other:
            serve_one_request(sock)
            serve_one_request(other)
            kshim.kill_node(1)
            with pytest.raises(ConnectionResetError):
                read_all(sock)
            serve_one_request(other)
        assert kshim.live == [2]
        assert {kshim.leader_of("orders", index) for index in (0, 1)} == {2}
        with pytest.raises(ConnectionRefusedError):
            connected(kshim.address_of(1))
        kshim.kill_node(1)
        kshim.start_node(1)
        with connected(kshim.address_of(1)) as sock:
            serve_one_request(sock)


def test_the_only_broker_keeps_what_it_acknowledged_when_it_is_killed_or_restarted() -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        kshim.produce("orders", "x")
        kshim.kill_node(1)
        kshim.start_node(1)
        kshim.restart_node(1)
        with connected(kshim.bootstrap_servers) as sock:
            serve_one_request(sock)
        assert [record.value for record in kshim.records("orders")] == [b"x"]


def test_leaders_and_coordinators_move() -> None:
    with Kshim(3, topics={"orders": 1}) as kshim:
        for broker in (3, 1, 2):
            kshim.move("orders", 0, broker)
            kshim.move_coordinator("billing", broker)
            assert (kshim.leader_of("orders"), kshim.coordinator_of("billing")) == (broker, broker)
        kshim.stop_node(2)
        with pytest.raises(ValueError, match="2"):
            kshim.move_coordinator("billing", 2)
        with pytest.raises(LookupError, match="unknown broker 9"):
            kshim.kill_node(9)


def test_pages_show_what_happened_to_each_group_by_the_clock_of_the_brokers() -> None:
    with Kshim(topics={"orders": 1}, clock="manual") as kshim:
        assert kshim.pages() == {}
        with member(kshim) as ann, member(kshim, group_id="<b>&") as other:
            for each in (ann, other):
                each.join()
                each.sync({each.member_id: (0,)})
            kshim.clock.advance(46)
        pages = kshim.pages()
        assert pages.keys() == {"billing", "<b>&"}
        assert "expired: no heartbeat came in time" in pages["billing"]
        assert "&lt;b&gt;&amp;" in pages["<b>&"]
