"""Hosts: each is an address of its own, from which its processes reach the broker through a relay that can be cut off.

Where all is played on one machine there are several relays of one address: parts of its network.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

_CHUNK_BYTES = 1 << 16


class Host:
    """One host. The broker sees its connections come from `address`, and has a listener for it that advertises the relay."""

    def __init__(self, number: int, listener_port: int, relay_port: int, address: str | None = None) -> None:
        """`address`: None is one of its own."""
        self.name = f"HOST{number}"
        self.address = address or address_of(number)
        self.listener_port = listener_port
        self.relay_port = relay_port
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        """Where its processes connect to."""
        return f"{self.address}:{self.relay_port}"

    @property
    def listener(self) -> str:
        """Where the broker listens for it."""
        return f"127.0.0.1:{self.listener_port}"

    async def start(self) -> None:
        """Begin to relay."""
        self._server = await asyncio.start_server(self._accepted, self.address, self.relay_port)

    async def stop(self) -> None:
        """End, with all connections."""
        assert self._server is not None
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def cut(self) -> None:
        """Lose everything from now on: nothing passes in either direction, and nothing is closed."""
        self._is_open.clear()

    def mend(self) -> None:
        """Let pass what has waited, and what comes."""
        self._is_open.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()  # by `stop`
        finally:
            self._relays.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._is_open.wait()
        try:
            broker_reader, broker_writer = await asyncio.open_connection(
                "127.0.0.1", self.listener_port, local_addr=(self.address, 0)
            )
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, broker_writer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, broker_writer))
                both.create_task(self._pump(broker_reader, writer))
        except* OSError:
            for end in ends:
                end.transport.abort()  # what was reset on one side is reset on the other
        finally:
            for end in ends:
                end.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while True:
            data = await source.read(_CHUNK_BYTES)
            await self._is_open.wait()
            if not data:
                break
            target.write(data)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()


def address_of(number: int) -> str:
    """That of the host with this number, from 1."""
    return f"127.0.{number}.1"


def free_ports_of(address: str, count: int) -> list[int]:
    """Ports of one address that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((address, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
