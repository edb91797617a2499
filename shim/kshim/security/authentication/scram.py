"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side and the keys it stores.

A login costs two HMACs: the expensive part (PBKDF2) is the client's. Kafka: ScramSaslServer, ScramFormatter.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Final, NamedTuple

from kshim.security.authentication.mechanism import AuthenticationFailed

SCRAM_MECHANISMS: Final[dict[str, tuple[int, str]]] = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""Mechanism -> (its number in the SCRAM credential APIs, its hash)."""
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Bounds of Kafka's ScramMechanism, the same for both."""

_CLIENT_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>(?:[^=,\0]|=2C|=3D)+))?,)"
    r"(?P<bare>(?:m=[^,\0]+,)?n=(?P<user>(?:[^=,\0]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,\0]+)*)"
)
_CLIENT_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,\0]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramCredential(NamedTuple):
    """What is stored of a password: enough to check a proof, not enough to make one."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"<SCRAM credential, {self.iterations} iterations>"

    @classmethod
    def of(cls, mechanism: str, salt: bytes, iterations: int, salted: bytes) -> ScramCredential:
        """The keys of a salted password (`salted_password`, or what AlterUserScramCredentials carries)."""
        hash_name = SCRAM_MECHANISMS[mechanism][1]
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        return cls(
            salt,
            iterations,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", hash_name),
        )


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's Hi(): takes about a millisecond for 4096 iterations. Not prepared by SASLprep, as Kafka."""
    return hashlib.pbkdf2_hmac(SCRAM_MECHANISMS[mechanism][1], password.encode(), salt, iterations)


class ScramServer:
    """Implements `Mechanism`: client-first, server-first, client-final, server-final."""

    def __init__(
        self, mechanism: str, find: Callable[[str], ScramCredential | None], new_nonce: Callable[[], str]
    ) -> None:
        """`find` gives the credential of a user, `new_nonce` printable ASCII without comma, never the same twice."""
        self.user: str | None = None
        self._hash_name = SCRAM_MECHANISMS[mechanism][1]
        self._find = find
        self._new_nonce = new_nonce
        self._credential: ScramCredential | None = None
        self._client_first: re.Match[str] | None = None
        self._server_first = ""

    def evaluate(self, token: bytes) -> bytes:
        """See `Mechanism`."""
        if self.user is not None:
            raise AuthenticationFailed("a token after the end of the authentication")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("a SCRAM message that is not UTF-8") from None
        return self._first(text) if self._client_first is None else self._final(text, self._client_first)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("a malformed SCRAM client-first message")
        user = _plain_name(match["user"])
        credential = self._find(user)
        if credential is None:
            raise AuthenticationFailed(f"no SCRAM credential for {user!r}")
        if match["authzid"] and _plain_name(match["authzid"]) != user:
            raise AuthenticationFailed(
                f"{user!r} requests another authorization id",
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        self._client_first = match
        self._credential = credential
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={match['nonce']}{self._new_nonce()},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _final(self, text: str, first: re.Match[str]) -> bytes:
        credential = self._credential
        assert credential is not None
        self._credential = None  # one attempt
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationFailed("a malformed SCRAM client-final message")
        nonce = self._server_first.partition(",")[0].removeprefix("r=")
        if not hmac.compare_digest(match["nonce"].encode(), nonce.encode()):
            raise AuthenticationFailed("a SCRAM client-final message with another nonce")
        try:
            channel, proof = b64decode(match["channel"], validate=True), b64decode(match["proof"], validate=True)
        except (Base64Error, ValueError):
            raise AuthenticationFailed("a SCRAM client-final message with bad base64") from None
        # Kafka's own clients send "n,," here whatever they said first.
        if channel not in (first["gs2"].encode(), b"n,,"):
            raise AuthenticationFailed("a SCRAM client-final message with another channel binding")
        auth_message = f"{first['bare']},{self._server_first},{match['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, auth_message, self._hash_name)
        user = _plain_name(first["user"])
        if len(proof) != len(signature):
            raise AuthenticationFailed(f"a SCRAM proof of the wrong length for {user!r}")
        client_key = bytes(left ^ right for left, right in zip(signature, proof, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash_name, client_key).digest(), credential.stored_key):
            raise AuthenticationFailed(f"wrong password for {user!r}")
        self.user = user
        return b"v=" + b64encode(hmac.digest(credential.server_key, auth_message, self._hash_name))


def _plain_name(sasl_name: str) -> str:
    """RFC 5802's saslname: only comma and equals sign are written otherwise."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")
