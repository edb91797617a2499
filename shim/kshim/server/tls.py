"""TLS under a connection: the standard library's, sans-io.

Only imported when some listener speaks it.
"""

from __future__ import annotations

import ssl
from typing import Final

from kshim.broker.connection import ConnectionClosing
from kshim.server.distinguished_name import subject_of

HANDSHAKE_MAX_BYTES: Final = 256 * 1024
"""What a client may send before its handshake is done. OpenSSL takes 100 KiB of certificates."""
_READ_BYTES: Final = 64 * 1024
_PLAIN_TEXT_REASONS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


class TlsTransportLayer:
    """Implements `TransportLayer` for one connection: the server's side of TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._handshake_bytes = 0
        self.is_open = False
        self.is_over = False
        self.principal: str | None = None

    def receive(self, data: bytes) -> bytes:
        """See `TransportLayer.receive`."""
        self._in.write(data)
        try:
            if not self.is_open:
                self._shake_hands(len(data))
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise ConnectionClosing(reason_of(error)) from None

    def send(self, data: bytes | memoryview) -> bytes:
        """See `TransportLayer.send`."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._tls.write(view) :]
        except ssl.SSLError as error:
            raise ConnectionClosing(reason_of(error)) from None
        return self._out.read()

    def pending(self) -> bytes:
        """See `TransportLayer.pending`."""
        return self._out.read() if self._out.pending else b""

    def end(self) -> bytes:
        """See `TransportLayer.end`: the alert close_notify, which distinguishes an end from an interruption."""
        try:
            if self.is_open:
                self._tls.unwrap()
        except ssl.SSLError:  # it is written, and the peer's own has not come
            pass
        return self._out.read()

    def _shake_hands(self, received_bytes: int) -> None:
        self._handshake_bytes += received_bytes
        if self._handshake_bytes > HANDSHAKE_MAX_BYTES:
            raise ConnectionClosing(f"TLS: the handshake has more than {HANDSHAKE_MAX_BYTES} bytes")
        self._tls.do_handshake()
        self.is_open = True
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is not None:
            self.principal = f"User:{subject_of(certificate)}"

    def _read(self) -> bytes:
        pieces = []
        try:
            while piece := self._tls.read(_READ_BYTES):
                pieces.append(piece)
            self.is_over = True  # close_notify
        except ssl.SSLWantReadError:
            pass
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def reason_of(error: ssl.SSLError) -> str:
    """What went wrong, in words."""
    reason = error.reason or type(error).__name__
    hint = "; this listener speaks TLS only" if reason in _PLAIN_TEXT_REASONS else ""
    verify = f": {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else ""
    return f"TLS: {reason.replace('_', ' ').lower()}{verify}{hint}"
