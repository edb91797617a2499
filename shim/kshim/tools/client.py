"""A blocking connection to a broker that speaks in typed messages; what the tools use instead of a Kafka client."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Any

from kshim.tools.client_security import AuthenticationFailed, Security, authenticate
from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.frame import build_request_frame
from kshim_protocol.schema import Request

API_VERSIONS = 18
PLAINTEXT = Security()
_RENEW = 0.8
"""When so much of a session's lifetime is over, the client authenticates again (KIP-368)."""


class BrokerGone(Exception):
    """The broker closed the connection, cannot be reached, or does not let us in."""


class Client:
    """One connection, authenticated as `security` says. Requests are answered in order; `send` and `receive` may be far apart.

    Raises BrokerGone.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_s: float = 10.0, security: Security = PLAINTEXT
    ) -> None:
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._awaited: list[tuple[int, int, int]] = []  # (correlation id, api key, version)
        self._buffer = b""
        self._sasl = security.sasl
        self._renew_s: float | None = None
        try:
            self._sock = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise BrokerGone(f"cannot connect to {host}:{port}: {error.strerror or error}") from None
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if security.tls is not None:
                self._sock = security.tls.wrap_socket(self._sock, server_hostname=host)
            self._authenticate()
        except OSError as error:
            self._sock.close()
            kind = "connection" if security.tls is None else "TLS connection"
            raise BrokerGone(f"no {kind} to {host}:{port}: {error.strerror or error}") from None
        except BaseException:
            self._sock.close()
            raise

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed."""
        return bool(self._awaited)

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send and wait for the answer. Raises BrokerGone, TimeoutError, ProtocolError."""
        if self._renew_s is not None and not self._awaited and time.monotonic() >= self._renew_s:
            self._authenticate()
        return self._ask(request, version)

    def _authenticate(self) -> None:
        if self._sasl is None:
            return
        self._renew_s = None
        try:
            lifetime_ms = authenticate(self._ask, self._sasl)
        except AuthenticationFailed as error:
            raise BrokerGone(str(error)) from None
        if lifetime_ms:
            self._renew_s = time.monotonic() + _RENEW * lifetime_ms / 1_000

    def _ask(self, request: Request[Any], version: int) -> Any:
        self.send(request, version)
        response = self.receive(self._timeout_s)
        if response is None:
            raise TimeoutError(f"no response to {request.info.name} within {self._timeout_s} s")
        return response

    def send(self, request: Request[Any], version: int) -> None:
        """Send one request. Raises BrokerGone, BuildError."""
        api_key = request.info.api_key
        assert api_key is not None
        self._correlation_id += 1
        body = codec(type(request), version).build(request)
        is_flexible = API_TABLE[api_key].is_flexible(version)
        frame = build_request_frame(api_key, version, self._correlation_id, self._client_id, body, flexible=is_flexible)
        try:
            self._sock.sendall(frame)
        except OSError as error:
            raise BrokerGone(str(error)) from None
        self._awaited.append((self._correlation_id, api_key, version))

    def receive(self, timeout_s: float) -> Any:
        """The next answer, or None when none came in time. Raises BrokerGone, ProtocolError."""
        deadline = time.monotonic() + timeout_s
        while (frame := self._whole_frame()) is None:
            left_s = deadline - time.monotonic()
            if left_s < 0 or not (self._is_buffered() or select.select([self._sock], [], [], left_s)[0]):
                return None
            try:
                data = self._sock.recv(1 << 16)
            except OSError as error:
                raise BrokerGone(str(error)) from None
            if not data:
                raise BrokerGone("the broker closed the connection")
            self._buffer += data
        correlation_id, api_key, version = self._awaited.pop(0)
        (answered,) = struct.unpack_from(">i", frame)
        if answered != correlation_id:
            raise BrokerGone(f"answer to request {answered}, expected {correlation_id}")
        api = API_TABLE[api_key]
        has_tags = api.is_flexible(version) and api_key != API_VERSIONS
        response, _ = codec(api.response_class(), version).parse(frame, 5 if has_tags else 4)
        return response

    def close(self) -> None:
        """Close the connection, whatever is owed."""
        self._sock.close()

    def _is_buffered(self) -> bool:
        """Whether TLS has decrypted more than was taken so far, of which the socket shows nothing."""
        pending = getattr(self._sock, "pending", None)
        return pending is not None and pending() > 0

    def _whole_frame(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        (size,) = struct.unpack_from(">i", self._buffer)
        if len(self._buffer) < 4 + size:
            return None
        frame = self._buffer[4 : 4 + size]
        self._buffer = self._buffer[4 + size :]
        return frame
