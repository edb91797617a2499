"""A connection that authenticates, written by hand from the RFCs so that it hangs on nothing under test."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Any

from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kshim_protocol.messages.sasl_handshake import SaslHandshakeRequest

Address = tuple[str, int]
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Refused(Exception):
    """The broker refused: `code` and its `message`."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(f"{ErrorCode(code).name}: {message}")
        self.code = ErrorCode(code)
        self.message = message


def connected(address: Address, user: str, password: str, mechanism: str = "PLAIN") -> Client:
    """A connection of an authenticated user. Raises Refused."""
    client = Client(*address, client_id=f"test-{user}")
    try:
        authenticate(client, user, password, mechanism)
    except BaseException:
        client.close()
        raise
    return client


def authenticate(client: Client, user: str, password: str, mechanism: str = "PLAIN") -> int:
    """Authenticate, also again. Returns the lifetime of the session in ms. Raises Refused."""
    answer = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    if answer.error_code:
        raise Refused(answer.error_code, ",".join(answer.mechanisms))
    if mechanism == "PLAIN":
        return int(token(client, f"\0{user}\0{password}".encode()).session_lifetime_ms)
    exchange = ScramClient(user, password, mechanism)
    first = token(client, exchange.first())
    final = token(client, exchange.final(first.auth_bytes))
    exchange.check(final.auth_bytes)
    return int(final.session_lifetime_ms)


def token(client: Client, auth_bytes: bytes) -> Any:
    """Send a token; the answer. Raises Refused."""
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=auth_bytes), 2)
    if answer.error_code:
        raise Refused(answer.error_code, answer.error_message)
    return answer


class ScramClient:
    """RFC 5802, the client's side."""

    def __init__(self, user: str, password: str, mechanism: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL") -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return b"n,," + self._bare.encode()

    def final(self, server_first: bytes) -> bytes:
        parts = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, b64decode(parts["s"]), int(parts["i"]))
        without_proof = f"c=biws,r={parts['r']}"
        message = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), message, self._hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        assert server_final == b"v=" + b64encode(self._server_signature), "the server does not know the password either"
