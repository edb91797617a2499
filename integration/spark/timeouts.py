"""The timeouts of the consumers that are played with, and what waits follow from them."""

from __future__ import annotations

from typing import Final

HEARTBEAT_MS: Final = 500
SESSION_MS: Final = 4_000
MAX_POLL_MS: Final = 6_000
"""Longer than the session, as it is by default."""

QUIET_S: Final = 1.5 * max(SESSION_MS, MAX_POLL_MS) / 1_000
"""What happens further apart than this belongs to two incidents."""

SLOW_S: Final = 1.5 * MAX_POLL_MS / 1_000
STOPPED_S: Final = 2 * SESSION_MS / 1_000
