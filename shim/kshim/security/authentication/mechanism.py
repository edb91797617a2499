"""What every SASL mechanism does here, and how an attempt fails."""

from __future__ import annotations

from typing import Protocol


class AuthenticationFailed(Exception):
    """Authentication failed. `message` is for the client, None if a reason would help an attacker.

    `reason` is for the log, cut short as a peer may have named itself at length; neither ever holds a secret.
    """

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason[:200]
        self.message = message


class Mechanism(Protocol):
    """The server's side of one authentication. Kafka: javax.security.sasl.SaslServer."""

    user: str | None
    """The authenticated user; None before `evaluate` has succeeded."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's next token, return the server's. Raises AuthenticationFailed."""
