"""One member's connection, in typed messages, many of them in one event loop."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, TypeVar

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.schema import Request

Address = tuple[str, int]
"""Host and port."""

R = TypeVar("R")

_API_VERSIONS = 18
_LARGEST_ANSWER_BYTES = 64 << 20


class ConnectionGone(Exception):
    """The broker closed the connection, or cannot be reached."""


class Connection:
    """Requests go one after the other, as a broker serves them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0

    @classmethod
    async def open(cls, address: Address, *, client_id: str, source: str | None = None) -> Connection:
        """Connect, from the loopback address `source` when given, which the broker then takes for the client's host.

        Raises ConnectionGone.
        """
        local = None if source is None else (source, 0)
        try:
            reader, writer = await asyncio.open_connection(*address, local_addr=local)
        except OSError as error:
            raise ConnectionGone(f"cannot connect to {address[0]}:{address[1]}: {error}") from None
        return cls(reader, writer, client_id)

    async def ask(self, request: Request[R], version: int) -> R:
        """Send, and wait as long as the answer takes. Raises ConnectionGone, ProtocolError."""
        api_key = request.info.api_key
        assert api_key is not None
        api = API_TABLE[api_key]
        is_flexible = api.is_flexible(version)
        self._correlation_id += 1
        body = codec(type(request), version).build(request)
        frame = build_request_frame(api_key, version, self._correlation_id, self._client_id, body, flexible=is_flexible)
        try:
            self._writer.write(frame)
            await self._writer.drain()
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            if not 4 <= size <= _LARGEST_ANSWER_BYTES:
                raise ConnectionGone(f"an answer of {size} bytes")
            answer = await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ConnectionGone(str(error)) from None
        (answered,) = struct.unpack_from(">i", answer)
        if answered != self._correlation_id:
            raise ConnectionGone(f"answer to request {answered}, expected {self._correlation_id}")
        has_tags = is_flexible and api_key != _API_VERSIONS
        response: Any
        response, _ = codec(api.response_class(), version).parse(answer, 5 if has_tags else 4)
        return response  # type: ignore[no-any-return]

    def abort(self) -> None:
        """Drop the connection, whatever is under way, as the end of a process does."""
        self._writer.transport.abort()
