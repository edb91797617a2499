"""A connection of a recording, as the broker sees it when the recording is replayed in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshim.broker.client_activity import ConnectedClient
from kshim.config.listeners import SecurityProtocol


class ReplayedConnection:
    """Implements the broker's `Connection`. `on_answer(itself, request number, frame without size or None)` gets its answers.

    `waiting` holds requests that stand behind one that was not answered yet: numbers and frames.
    """

    def __init__(
        self, about: Mapping[str, Any], on_answer: Callable[[ReplayedConnection, int, bytes | None], None]
    ) -> None:
        self.node_id: int = about["node"]
        self.client_host: str = about["host"]
        self.client_port = 0  # log lines name it, answers never
        self.listener_name: str = about["listener"]
        self.security_protocol: SecurityProtocol = about["protocol"]
        self.principal: str = about["principal"]
        self.is_authenticated = True
        self.is_closed = False
        self.client = ConnectedClient()
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.current = 0
        """The number of the request that is owed its answer; 0: none is."""
        self._on_answer = on_answer

    def reply(self, frame: bytes | None, rest: Sequence[bytes] = ()) -> None:
        """See `Connection.reply`."""
        number, self.current = self.current, 0
        self._on_answer(self, number, None if frame is None else b"".join((frame, *rest))[4:])

    def hang_up(self, reason: str) -> None:
        """See `Connection.hang_up`: the recording says when its client was gone."""
