"""SASL PLAIN (RFC 4616): the password itself, so it should be used with TLS only."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from kshim.security.authentication.mechanism import AuthenticationFailed


class PasswordDigests:
    """Passwords as salted SHA-256 digests, in memory only. One `salt` (random bytes) a process.

    Where the passwords come from, they stand in plain text; the digests keep them out of memory, dumps and reprs. An
    expensive hash would add nothing but a loop that stands still at each login.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._digests: dict[str, bytes] = {}

    def __contains__(self, user: str) -> bool:
        return user in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, user: str, password: str) -> None:
        """Set the password of a user."""
        self._digests[user] = self._digest(password)

    def matches(self, user: str, password: str) -> bool:
        """Whether that is the user's password; takes as long for a user there is not."""
        known = self._digests.get(user)
        is_equal = compare_digest(self._digest(password), known or self._salt)
        return known is not None and is_equal

    def _digest(self, password: str) -> bytes:
        return sha256(self._salt + password.encode(errors="surrogatepass")).digest()


class PlainServer:
    """Implements `Mechanism`. Messages are those of Kafka's PlainSaslServer."""

    def __init__(self, passwords: PasswordDigests) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Token: authorization id NUL user NUL password, in UTF-8; the answer is empty."""
        if self.user is not None:
            raise AuthenticationFailed("a token after the end of the authentication")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("a PLAIN token that is not UTF-8") from None
        if len(parts) != 3:
            text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationFailed("a malformed PLAIN token", text)
        authorization_id, user, password = parts
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise AuthenticationFailed(f"no {name}", f"Authentication failed: {name} not specified")
        if not self._passwords.matches(user, password):
            raise AuthenticationFailed(
                f"wrong user or password for {user!r}", "Authentication failed: Invalid username or password"
            )
        if authorization_id and authorization_id != user:
            raise AuthenticationFailed(
                f"{user!r} asks to be {authorization_id!r}",
                "Authentication failed: Client requested an authorization id that is different from username",
            )
        self.user = user
        return b""
