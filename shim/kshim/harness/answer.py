"""The way back of a request that no client has sent."""

from __future__ import annotations

from typing import Any

from kshim.coordinator.step import Ticket
from kshim_protocol.errors import ErrorCode, KafkaError


class NoConnection:
    """What handlers ask of a connection."""

    client_host = "/127.0.0.1"
    listener_name = ""
    is_closed = False


class Answer(Ticket):
    """Keeps the response. `complete` and `refuse` are called as those of `PendingReply`."""

    __slots__ = ("connection", "error", "response")

    def __init__(self) -> None:
        self.connection = NoConnection()
        self.response: Any = None
        self.error: ErrorCode | None = None

    def complete(self, response: Any) -> None:
        self.response = response

    def refuse(self, error: ErrorCode) -> None:
        self.error = error

    def result(self) -> Any:
        """The response. Raises KafkaError when the request was refused or is not answered yet."""
        if self.response is None:
            raise KafkaError(self.error or ErrorCode.REQUEST_TIMED_OUT)
        return self.response
