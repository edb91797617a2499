"""The seam below a connection's frames, where TLS sits."""

from __future__ import annotations

from typing import Protocol


class TransportLayer(Protocol):
    """What lies between the wire and the frames, sans-io. None for plain text; TLS is `ssl.MemoryBIO` behind this.

    The bytes for the wire go out in the order in which these methods return them.
    """

    def receive(self, data: bytes) -> bytes:
        """Wire bytes in, all plain bytes they complete out. Raises ConnectionClosing."""

    def send(self, data: bytes | memoryview) -> bytes:
        """Plain bytes in, wire bytes out. Raises ConnectionClosing."""

    def pending(self) -> bytes:
        """Wire bytes this layer owes the peer by itself (handshake, alert); asked after each `receive`."""

    def end(self) -> bytes:
        """Wire bytes that inform the peer of the end, if any. Nothing is called after this."""

    @property
    def is_open(self) -> bool:
        """True once the handshake is done."""

    @property
    def is_over(self) -> bool:
        """True once the peer has said that it sends no more."""

    @property
    def principal(self) -> str | None:
        """Who the peer has proved to be; asked once it is open."""
