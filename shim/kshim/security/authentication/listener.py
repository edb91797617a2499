"""How clients authenticate on one SASL listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kshim.security.authentication.mechanism import Mechanism


class SaslMechanism(NamedTuple):
    """One enabled mechanism: `start` begins an authentication.

    `max_reauth_ms`: how long a session lasts until the client has to authenticate again, 0 for good (KIP-368).
    """

    name: str
    start: Callable[[], Mechanism]
    max_reauth_ms: int = 0


class SaslListener(NamedTuple):
    """The mechanisms of a listener by name, in the order that clients see; how long a refusal is held back.

    `has_users`: whether its configuration or `--users` defines any user.
    """

    mechanisms: dict[str, SaslMechanism]
    failure_delay_ms: int = 100
    has_users: bool = True
