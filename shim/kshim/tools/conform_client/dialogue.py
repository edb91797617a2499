"""What passes between a program and the brokers: every request, its answer and when, as seen at the brokers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from kshim.broker.request import errors_in
from kshim_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.request import Route
    from kshim.broker.router import Router
    from kshim.faults.faults import Firing
    from kshim_protocol.frame import RequestHeader
    from kshim_protocol.schema import Request

OWN_CLIENT_ID = "kshim-conform-client"
"""Of our own requests, which are no part of the dialogue."""
_DAMAGES = ("truncate", "corrupt", "oversize")
"""Faults that change the bytes of an answer."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and what became of it. Times are seconds since the dialogue began."""

    at_s: float
    node_id: int
    connection: int
    """Connections are numbered in the order of their first request."""
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    request: Any
    response: Any = None
    """None until answered."""
    answered_s: float | None = None
    is_damaged: bool = False
    """The answer's bytes went out damaged, as a fault asked for."""
    closed_s: float | None = None
    """When its connection ended, if that was before the answer."""
    errors: tuple[str, ...] = ()
    """Names of the error codes anywhere in the answer, sorted."""
    fault: str = ""
    """What `kshim.faults` has done to it."""

    @property
    def is_refused(self) -> bool:
        """Whether it was not answered properly: with an error, with damaged bytes, or not at all."""
        return bool(self.errors) or self.is_damaged or (self.closed_s is not None and self.answered_s is None)


@dataclass(slots=True)
class Dialogue:
    """The exchanges in order, for as long as the brokers run. Lives in trio's thread."""

    exchanges: list[Exchange] = field(default_factory=list)
    connection_count: int = 0
    _began_s: float = field(default_factory=trio.current_time)
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def now_s(self) -> float:
        """Seconds since it began."""
        return trio.current_time() - self._began_s

    def observe(self, router: Router) -> None:
        """Take down what a node is asked and answers from now on. To be called once for each node."""
        _Observer(self, router)

    def fired(self, firing: Firing) -> None:
        """Take down that a fault has acted on a request."""
        for exchange in reversed(self.exchanges):
            if (exchange.api, exchange.correlation_id, exchange.client_id, exchange.node_id) == (
                firing.api, firing.correlation_id, firing.client_id, firing.broker
            ):  # fmt: skip
                exchange.fault = firing.rule
                exchange.is_damaged = any(damage in firing.rule for damage in _DAMAGES)
                break
        self.changed()

    def changed(self) -> None:
        """Wake those who wait, to look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_until(self, is_so: Callable[[], bool], *, until_s: float = math.inf) -> bool:
        """Return True the moment `is_so()`, asked after each change; False when the time `until_s` has come."""
        with trio.move_on_at(self._began_s + until_s):
            while not is_so():
                await self._changed.wait()
        return is_so()

    def since(self, at_s: float, *apis: str) -> Iterator[Exchange]:
        """Those that began at or after a time; of these APIs, if any is named."""
        return (each for each in self.exchanges if each.at_s >= at_s and (not apis or each.api in apis))


class _Observer:
    """Hears of each request of one node, and of its answer."""

    def __init__(self, dialogue: Dialogue, router: Router) -> None:
        self._dialogue = dialogue
        self._node_id = router.node.node_id
        self._numbers: dict[Connection, int] = {}
        self._pending: dict[Connection, Exchange] = {}
        observer, replaced = self, router.new_reply

        class ObservedReply(replaced):  # type: ignore[misc, valid-type]
            """Takes down when the request came and how it was answered, faults included."""

            __slots__ = ("exchange",)

            def __init__(
                self, connection: Connection, header: RequestHeader, route: Route, request: Request[Any]
            ) -> None:
                super().__init__(connection, header, route, request)
                self.exchange = observer.asked(connection, header, route, request)

            def complete(self, response: Any) -> None:
                if self.exchange is not None and not self.connection.is_closed:
                    observer.answered(self.exchange, response)
                super().complete(response)

        router.new_reply = ObservedReply
        router.on_closed.append(self._closed)

    def asked(
        self, connection: Connection, header: RequestHeader, route: Route, request: Request[Any]
    ) -> Exchange | None:
        """A request has come; None for our own."""
        if header.client_id == OWN_CLIENT_ID:
            return None
        exchange = Exchange(
            at_s=self._dialogue.now_s,
            node_id=self._node_id,
            connection=self._number_of(connection),
            api=route.api.name,
            version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            request=request,
        )
        self._pending[connection] = exchange
        self._dialogue.exchanges.append(exchange)
        self._dialogue.changed()
        return exchange

    def answered(self, exchange: Exchange, response: Any) -> None:
        """A request is answered."""
        exchange.answered_s = self._dialogue.now_s
        exchange.response = response
        exchange.errors = tuple(sorted({_name_of(code) for code in errors_in(response)}))
        self._dialogue.changed()

    def _number_of(self, connection: Connection) -> int:
        if connection not in self._numbers:
            self._dialogue.connection_count += 1
            self._numbers[connection] = self._dialogue.connection_count
        return self._numbers[connection]

    def _closed(self, connection: Connection) -> None:
        self._numbers.pop(connection, None)
        exchange = self._pending.pop(connection, None)
        if exchange is not None and exchange.answered_s is None:
            exchange.closed_s = self._dialogue.now_s
        self._dialogue.changed()


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:  # of damaged bytes
        return f"error {code}"
