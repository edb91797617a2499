"""How many connections there may be: in all, of one listener, of one address."""

from __future__ import annotations

import pytest
import trio.testing

from kshim.config.listeners import Listener
from kshim.server.limits import ServerLimits
from kshim.server.quotas import ConnectionQuotas
from kshim.server.server import LoopName
from tests.server.harness import Client, ObeyingRouter, serving

INNER = Listener("INNER", "PLAINTEXT", "127.0.0.1", 0)
OUTER = Listener("OUTER", "PLAINTEXT", "127.0.0.1", 0)


def test_an_address_may_have_its_own_number() -> None:
    quotas = ConnectionQuotas(
        ServerLimits(max_connections_per_ip=1, max_connections_per_ip_overrides={"/10.0.0.1": 2, "/10.0.0.2": 0})
    )
    quotas.add("INNER", "/10.0.0.1")
    assert quotas.refusal("/10.0.0.1") is None
    quotas.add("INNER", "/10.0.0.1")
    assert quotas.refusal("/10.0.0.1") == "more than 2 connections of this address"
    assert quotas.refusal("/10.0.0.2") == "more than 0 connections of this address"
    assert quotas.refusal("/10.0.0.3") is None


def test_what_has_gone_makes_room() -> None:
    quotas = ConnectionQuotas(ServerLimits(max_connections=2, listener_max_connections={"INNER": 1}))
    quotas.add("INNER", "/10.0.0.1")
    assert (quotas.room("INNER"), quotas.room("OUTER")) == (0, 1)
    quotas.add("OUTER", "/10.0.0.1")
    assert (quotas.room("INNER"), quotas.room("OUTER")) == (0, 0)
    quotas.remove("INNER", "/10.0.0.1")
    assert (quotas.room("INNER"), quotas.room("OUTER")) == (1, 1)
    quotas.remove("OUTER", "/10.0.0.1")
    assert (quotas.total, quotas.of("/10.0.0.1")) == (0, 0)


@pytest.mark.trio
async def test_one_connection_too_many_of_an_address_is_closed_and_the_others_stay(loop: LoopName) -> None:
    limits = ServerLimits(max_connections_per_ip=2)
    async with serving(ObeyingRouter(), loop=loop, limits=limits) as running:
        async with running.client() as first, running.client() as second:
            await first.ask(b"echo")
            await second.ask(b"echo")
            async with running.client() as third:
                assert await third.receive_end() == b""
            assert running.log.closings == [("/127.0.0.1", "more than 2 connections of this address")]
            assert await first.ask(b"echo") == b"echo"
        await trio.testing.wait_all_tasks_blocked()
        async with running.client() as later:
            assert await later.ask(b"echo") == b"echo"


@pytest.mark.trio
async def test_a_full_listener_keeps_its_backlog_waiting_and_another_one_goes_on(loop: LoopName) -> None:
    limits = ServerLimits(listener_max_connections={"INNER": 1})
    async with serving(ObeyingRouter(), loop=loop, limits=limits, listeners=(INNER, OUTER)) as running:
        (_, inner_port), (_, outer_port) = running.server.addresses
        assert inner_port == running.server.port
        clients = [Client(inner_port), Client(inner_port), Client(outer_port)]
        for client in clients:
            await client.connect()
        first, waiting, outer = clients
        assert await first.ask(b"echo") == b"echo"
        assert await outer.ask(b"echo") == b"echo"
        waiting.send(b"\0\0\0\4echo")
        await trio.testing.wait_all_tasks_blocked()
        first.close()
        assert await waiting.receive_frame() == b"echo"
        waiting.close()
        outer.close()


@pytest.mark.trio
async def test_a_connection_knows_its_listener(loop: LoopName) -> None:
    secured = Listener("OUTER", "SASL_PLAINTEXT", "127.0.0.1", 0)
    async with serving(router := ObeyingRouter(), loop=loop, listeners=(INNER, secured)) as running:
        for name, (_, port) in zip(("inner", "outer"), running.server.addresses, strict=True):
            client = Client(port)
            await client.connect()
            client.send(b"\0\0\0\x0apark " + name.encode())
            await router.until(lambda name=name: f"park {name}".encode() in router.parked)  # type: ignore[misc]
            client.close()
        inner, outer = router.parked[b"park inner"], router.parked[b"park outer"]
        assert (inner.listener_name, inner.security_protocol, inner.is_authenticated) == ("INNER", "PLAINTEXT", True)
        assert (outer.listener_name, outer.security_protocol) == ("OUTER", "SASL_PLAINTEXT")
        assert not outer.is_authenticated
