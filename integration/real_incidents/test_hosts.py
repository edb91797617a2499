"""A host's relay, between a client and a broker that only repeats what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from integration.real_incidents.hosts import Host, free_ports_of


@asynccontextmanager
async def host_before_an_echo() -> AsyncIterator[tuple[Host, list[str]]]:
    """A host, and the addresses that the other end has seen."""
    seen: list[str] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host = Host(7, server.sockets[0].getsockname()[1], free_ports_of("127.0.7.1", 1)[0])
    await host.start()
    try:
        yield host, seen
    finally:
        await host.stop()
        server.close()


async def connected(host: Host) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(host.address, host.relay_port)


def test_the_broker_sees_the_address_of_the_host() -> None:
    async def test() -> None:
        async with host_before_an_echo() as (host, seen):
            reader, writer = await connected(host)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            assert seen == ["127.0.7.1"]
            writer.close()

    asyncio.run(test())


def test_what_is_cut_off_is_neither_answered_nor_closed_until_it_is_mended() -> None:
    async def test() -> None:
        async with host_before_an_echo() as (host, _):
            reader, writer = await connected(host)
            writer.write(b"before")
            await reader.readexactly(6)
            host.cut()
            writer.write(b"meanwhile")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
            host.mend()
            assert await reader.readexactly(9) == b"meanwhile"
            writer.close()

    asyncio.run(test())


def test_an_end_of_one_side_is_that_of_the_other() -> None:
    async def test() -> None:
        async with host_before_an_echo() as (host, _):
            reader, writer = await connected(host)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    asyncio.run(test())
