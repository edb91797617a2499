"""The seam for TLS: a byte transport_layer between the wire and the frames."""

from __future__ import annotations

import ssl

import pytest
import trio

from kshim.broker.connection import ConnectionClosing
from kshim.coordinator.step import Now
from kshim.server.connection import GONE
from kshim.server.server import LoopName
from kshim.server.tls import TlsTransportLayer
from tests.server.harness import ObeyingRouter, Wire, framed, serving


def anonymous(protocol: int) -> ssl.SSLContext:
    """TLS 1.2 with anonymous Diffie-Hellman: real records and a real handshake, and no certificate to make."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


def anonymous_transform() -> TlsTransportLayer:
    return TlsTransportLayer(anonymous(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.trio
async def test_a_tls_client_is_served_through_the_transform(loop: LoopName) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop, make_transport_layer=anonymous_transform) as running,
        await trio.open_tcp_stream("127.0.0.1", running.server.port) as tcp,
    ):
        tls = trio.SSLStream(tcp, anonymous(ssl.PROTOCOL_TLS_CLIENT), https_compatible=True)
        bodies = [b"echo %d" % i for i in range(500)] + [b"echo " + bytes(300_000)]
        stream = b"".join(map(framed, bodies))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tls.send_all, stream)
            received = b""
            while len(received) < len(stream):
                received += await tls.receive_some(65_536)
        assert received == stream
        assert len(router.frames) == len(bodies)


@pytest.mark.trio
async def test_plain_bytes_on_a_tls_listener_end_the_connection(loop: LoopName) -> None:
    async with (
        serving(router := ObeyingRouter(), loop=loop, make_transport_layer=anonymous_transform) as running,
        running.client() as client,
    ):
        client.send(framed(b"echo") * 10)
        await client.receive_end()
        ((_, reason),) = running.log.closings
        assert reason.startswith("TLS: ")
        assert router.frames == []


class Shifted:
    """Every byte is one more on the wire; greets first, and says so when it refuses."""

    def __init__(self) -> None:
        self._owed = b"HI"
        self.is_open = True
        self.is_over = False
        self.principal: str | None = None

    def receive(self, data: bytes) -> bytes:
        if b"\0" in data:
            self._owed = b"ALERT"
            raise ConnectionClosing("no zero on this wire")
        return bytes(byte - 1 for byte in data)

    def send(self, data: bytes | memoryview) -> bytes:
        return bytes(byte + 1 for byte in data)

    def end(self) -> bytes:
        return b""

    def pending(self) -> bytes:
        owed, self._owed = self._owed, b""
        return owed


def test_what_the_layer_owes_goes_out_before_the_answers() -> None:
    wire = Wire(ObeyingRouter(), transport_layer=Shifted())
    shifted = bytes(byte + 1 for byte in framed(b"echo"))
    assert wire.receive(shifted) == b"HI" + shifted
    assert wire.receive(shifted[:3]) == b""
    assert wire.receive(shifted[3:]) == shifted


def test_what_the_layer_owes_goes_out_after_what_is_unsent() -> None:
    wire = Wire(ObeyingRouter(), transport_layer=Shifted())
    shifted = bytes(byte + 1 for byte in framed(b"echo"))
    wire.connection.receive(shifted)
    wire.connection.handle(Now(0, 0), 0)
    wire.connection.keep_unsent(wire.connection.next_to_send(), 1)
    assert wire.receive(b"\0") == b"I" + b"ALERT"


def test_an_alert_is_sent_before_the_connection_ends() -> None:
    wire = Wire(ObeyingRouter(), transport_layer=Shifted())
    wire.receive(b"\1")
    assert wire.receive(b"\0") == b"ALERT"
    assert wire.connection.interest() == GONE


def test_a_layer_that_cannot_send_ends_the_connection() -> None:
    class Broken(Shifted):
        def send(self, data: bytes | memoryview) -> bytes:
            raise ConnectionClosing("cannot seal")

    wire = Wire(ObeyingRouter(), transport_layer=Broken())
    assert wire.receive(bytes(byte + 1 for byte in framed(b"echo"))) == b"HI"
    assert wire.connection.interest() == GONE
    assert wire.log.closings == [("/127.0.0.1", "cannot seal")]
