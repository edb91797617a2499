"""The authentication of one connection: which frames it may send when, and what ends it. Kafka: SaslServerAuthenticator."""

from __future__ import annotations

from enum import Enum

from kshim.security.authentication.listener import SaslListener, SaslMechanism
from kshim.security.authentication.mechanism import AuthenticationFailed, Mechanism
from kshim_protocol.errors import ErrorCode

MIN_REAUTH_INTERVAL_MS = 1_000
"""A client may not begin to authenticate again sooner after it last did (KIP-368)."""


class SaslState(Enum):
    """Where an authentication stands."""

    HANDSHAKE_OR_VERSIONS = "the first request is awaited"
    HANDSHAKE = "the mechanism is awaited"
    TOKENS = "the client's tokens are awaited, in SaslAuthenticate requests"
    RAW_TOKENS = "the client's tokens are awaited, as frames of their own"
    COMPLETE = "authenticated"
    FAILED = "refused"


class Refusal(Exception):
    """The authentication has failed: `error` and `message` are for the client, `reason` is for the log.

    Without a message the client gets no answer to its token (a live 4.4 gives none to a token of another mechanism).
    """

    def __init__(self, error: ErrorCode, reason: str, message: str | None) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.message = message


class SaslSession:
    """State of one connection. Times are ms on the real monotonic clock."""

    def __init__(self, listener: SaslListener) -> None:
        self.listener = listener
        self.state = SaslState.HANDSHAKE_OR_VERSIONS
        self.principal: str | None = None
        """Set when the authentication is complete, and kept while it is done again."""
        self.expires_ms: int | None = None
        """When the client has to have authenticated again; None: never."""
        self._mechanism: SaslMechanism | None = None
        self._previous: SaslMechanism | None = None
        self._server: Mechanism | None = None
        self._begun_ms: int | None = None

    def told_versions(self) -> None:
        """ApiVersions was answered without an error; that is done once."""
        self.state = SaslState.HANDSHAKE

    def may_begin_again(self, real_ms: int) -> bool:
        """Whether SaslHandshake begins a new authentication now; else it is a request like any other, and refused."""
        if self.expires_ms is None or (
            self._begun_ms is not None and real_ms - self._begun_ms < MIN_REAUTH_INTERVAL_MS
        ):
            return False
        self._begun_ms = real_ms
        self._previous, self._mechanism = self._mechanism, None
        self.state = SaslState.HANDSHAKE
        return True

    def choose(self, mechanism: str, *, as_raw: bool) -> None:
        """SaslHandshake: `as_raw` in version 0. Raises Refusal (UNSUPPORTED_SASL_MECHANISM), to be answered at once."""
        found = self.listener.mechanisms.get(mechanism)
        if found is None:
            self.state = SaslState.FAILED
            raise Refusal(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                "a SASL mechanism that is not enabled",
                f"Unsupported SASL mechanism {mechanism}",
            )
        self._mechanism = found
        self._server = found.start()
        self.state = SaslState.RAW_TOKENS if as_raw else SaslState.TOKENS

    def evaluate(self, token: bytes, real_ms: int) -> tuple[bytes, int]:
        """Take a token; returns the server's and the lifetime of the session in ms, 0 until it is complete or for good.

        Raises Refusal (SASL_AUTHENTICATION_FAILED), whose answer is to be held back for a while.
        """
        mechanism, server = self._mechanism, self._server
        assert mechanism is not None
        assert server is not None
        if self._previous is not None and self._previous.name != mechanism.name:
            self.state = SaslState.FAILED
            reason = f"re-authentication with {mechanism.name} after {self._previous.name}"
            raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, reason, None)
        try:
            answer = server.evaluate(token)
            if server.user is not None:
                self._check_same(server.user)
        except AuthenticationFailed as failure:
            self.state = SaslState.FAILED
            self._server = None
            again = "authentication" if self.principal is None else "re-authentication"
            message = failure.message or (
                f"Authentication failed during {again} due to invalid credentials with SASL mechanism {mechanism.name}"
            )
            reason = f"failed {again} with {mechanism.name}: {failure.reason}"
            raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, reason, message) from None
        if server.user is None:
            return answer, 0
        self.principal = f"User:{server.user}"
        self.state = SaslState.COMPLETE
        self._server = None
        lifetime_ms = mechanism.max_reauth_ms
        self.expires_ms = real_ms + lifetime_ms if lifetime_ms > 0 else None
        return answer, max(lifetime_ms, 0)

    def _check_same(self, user: str) -> None:
        if self.principal not in (None, f"User:{user}"):
            old = str(self.principal).removeprefix("User:")
            raise AuthenticationFailed(
                f"re-authentication as {user!r} instead of {old!r}",
                f"Cannot change principals during re-authentication from User.{old}: User.{user}",
            )
