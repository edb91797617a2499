"""How the tools' connections are secured: TLS, and SASL with PLAIN, SCRAM or a bearer token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kshim_protocol.messages.sasl_handshake import SaslHandshakeRequest
from kshim_protocol.schema import Request

if TYPE_CHECKING:
    import ssl

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)

_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
"""The first with the lifetime of the session (KIP-368), which Kafka 2.2 and later serve."""

Ask = Callable[[Request[Any], int], Any]


class AuthenticationFailed(Exception):
    """The broker does not let us in, or is not who it claims to be; `str(error)` says why."""


class Sasl(NamedTuple):
    """Who we are. `token_file` is read for each connection, so that tokens may be renewed; for OAUTHBEARER alone."""

    mechanism: str
    user: str = ""
    password: str = ""
    token_file: str = ""

    def __repr__(self) -> str:
        return f"Sasl({self.mechanism}, {self.user!r})"


class Security(NamedTuple):
    """What lies under the requests of a connection; None: not that."""

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None


def authenticate(ask: Ask, sasl: Sasl) -> int:
    """Authenticate a connection, also again. Returns for how long, in ms; 0: for ever. Raises AuthenticationFailed."""
    answer = ask(SaslHandshakeRequest(mechanism=sasl.mechanism), _HANDSHAKE_VERSION)
    if answer.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(
            f"the broker does not offer SASL mechanism {sasl.mechanism}, but {', '.join(answer.mechanisms) or 'none'}"
        )
    if sasl.mechanism == PLAIN:
        return _lifetime_ms(_send(ask, f"\0{sasl.user}\0{sasl.password}".encode()))
    if sasl.mechanism == OAUTHBEARER:
        return _bearer(ask, sasl)
    exchange = _Scram(sasl)
    final = _send(ask, exchange.final(_send(ask, exchange.first()).auth_bytes))
    exchange.check(final.auth_bytes)
    return _lifetime_ms(final)


def _bearer(ask: Ask, sasl: Sasl) -> int:
    try:
        with open(sasl.token_file, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise AuthenticationFailed(f"the token in {sasl.token_file} cannot be read: {error}") from None
    answer = _send(ask, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if answer.auth_bytes:  # RFC 7628: the reason, as JSON
        raise AuthenticationFailed(f"the broker refuses the token: {answer.auth_bytes.decode(errors='replace')}")
    return _lifetime_ms(answer)


def _send(ask: Ask, token: bytes) -> Any:
    answer = ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION)
    if answer.error_code != ErrorCode.NONE:
        raise AuthenticationFailed(answer.error_message or ErrorCode(answer.error_code).name)
    return answer


def _lifetime_ms(answer: Any) -> int:
    return int(answer.session_lifetime_ms)


class _Scram:
    """RFC 5802 and RFC 7677, the client's side, without channel binding."""

    def __init__(self, sasl: Sasl) -> None:
        self._hash = HASHES[sasl.mechanism]
        self._password = sasl.password.encode()
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={sasl.user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return b"n,," + self._bare.encode()

    def final(self, server_first: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        text = server_first.decode(errors="replace")
        try:
            parts = dict(part.split("=", 1) for part in text.split(","))
            nonce, salt, iterations = parts["r"], b64decode(parts["s"], validate=True), int(parts["i"])
            salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        except (ValueError, KeyError, Base64Error, OverflowError):
            raise AuthenticationFailed(f"the broker's SCRAM message makes no sense: {text}") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker answers another SCRAM exchange")
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._bare},{text},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), message, self._hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raises AuthenticationFailed."""
        if not hmac.compare_digest(server_final, b"v=" + b64encode(self._server_signature)):
            raise AuthenticationFailed(
                "the broker does not know the password, either: it may not be the one it claims to be"
            )
