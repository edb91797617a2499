"""What passes between a program and the brokers: every request, its answer and when, as seen at the brokers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from kshim_protocol.apis import API_TABLE
from kshim_protocol.codec import codec
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError, parse_request_header
from kshim_protocol.schema import Struct

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.router import Router
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Firing

OWN_CLIENT_ID = "kshim-conform-client"
"""Of our own requests, which are no part of the dialogue."""
_API_VERSIONS = 18
_SIZE_BYTES = 4


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
    """None where the bytes could not be read."""
    response: Any = None
    """None until answered, and where the answer has no readable bytes."""
    answered_s: float | None = None
    is_damaged: bool = False
    """The answer's bytes are not an answer, as a fault asked for."""
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
    _began_s: float = field(default_factory=trio.current_time)
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def now_s(self) -> float:
        """Seconds since it began."""
        return trio.current_time() - self._began_s

    def observe(self, router: Router) -> None:
        """Take down what a node is asked and answers from now on. Call it once a node, before clients connect."""
        _Observer(self, router)

    def fired(self, firing: Firing) -> None:
        """Take down that a fault has acted on a request."""
        for exchange in reversed(self.exchanges):
            if (exchange.api, exchange.correlation_id, exchange.client_id, exchange.node_id) == (
                firing.api, firing.correlation_id, firing.client_id, firing.broker
            ):  # fmt: skip
                exchange.fault = firing.rule
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
    """Stands before the router of one node, and behind each of its connections."""

    def __init__(self, dialogue: Dialogue, router: Router) -> None:
        self._dialogue = dialogue
        self._node_id = router.node.node_id
        self._route = router.route
        self._pending: dict[int, Exchange] = {}
        self._numbers: dict[int, int] = {}
        router.route = self._observed
        router.on_closed.append(self._closed)

    def _observed(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        exchange = self._exchange(frame, connection)
        if exchange is not None:
            self._dialogue.exchanges.append(exchange)
            self._pending[id(connection)] = exchange
            self._dialogue.changed()
        self._route(frame, connection, now, real_ms)

    def _exchange(self, frame: bytes, connection: Connection) -> Exchange | None:
        key = int.from_bytes(frame[:2], "big", signed=True)
        version = int.from_bytes(frame[2:4], "big", signed=True)
        api = API_TABLE.get(key)
        client_id: str | None = None
        request: Any = None
        if api is not None:
            try:
                header = parse_request_header(frame, flexible=api.is_flexible(version))
                client_id = header.client_id
                if api.min_version <= version <= api.max_version:
                    request, _ = codec(api.request_class(), version).parse(frame, header.body_at)
            except ProtocolError:
                pass
        if client_id == OWN_CLIENT_ID:
            return None
        return Exchange(
            at_s=self._dialogue.now_s,
            node_id=self._node_id,
            connection=self._number_of(connection),
            api=api.name if api is not None else f"api {key}",
            version=version,
            correlation_id=int.from_bytes(frame[4:8], "big", signed=True),
            client_id=client_id,
            request=request,
        )

    def _number_of(self, connection: Connection) -> int:
        number = self._numbers.get(id(connection))
        if number is None:
            number = self._numbers[id(connection)] = 1 + max(
                (each.connection for each in self._dialogue.exchanges), default=0
            )
            reply = connection.reply

            def observed_reply(frame: bytes | None) -> None:
                self._answered(connection, frame)
                reply(frame)

            # Behind everything that may change an answer, so that what is seen is what is sent.
            setattr(connection, "reply", observed_reply)  # noqa: B010  a method, for one instance
        return number

    def _answered(self, connection: Connection, frame: bytes | None) -> None:
        exchange = self._pending.pop(id(connection), None)
        if exchange is None or connection.is_closed:
            return
        exchange.answered_s = self._dialogue.now_s
        if frame is not None:
            exchange.response = _answer_in(frame, exchange)
            exchange.is_damaged = exchange.response is None
            exchange.errors = tuple(sorted({_name_of(code) for code in _errors_in(exchange.response)}))
        self._dialogue.changed()

    def _closed(self, connection: Connection) -> None:
        self._numbers.pop(id(connection), None)
        exchange = self._pending.pop(id(connection), None)
        if exchange is not None:
            exchange.closed_s = self._dialogue.now_s
        self._dialogue.changed()


def _answer_in(frame: bytes, exchange: Exchange) -> Any:
    """The message of an answer's bytes; None if they are not one."""
    if int.from_bytes(frame[:_SIZE_BYTES], "big") != len(frame) - _SIZE_BYTES:
        return None
    api = next((api for api in API_TABLE.values() if api.name == exchange.api), None)
    if api is None:
        return None
    has_tags = api.is_flexible(exchange.version) and api.key != _API_VERSIONS
    is_future = not api.min_version <= exchange.version <= api.max_version  # ApiVersions alone, answered as v0
    try:
        response_codec = codec(api.response_class(), 0 if is_future else exchange.version)
        response, end = response_codec.parse(frame, _SIZE_BYTES + 4 + has_tags)
    except ProtocolError:
        return None
    return response if end == len(frame) else None


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:  # of damaged bytes
        return f"error {code}"


def _errors_in(answer: Any) -> Iterator[int]:
    if isinstance(answer, tuple):
        for part in answer:
            yield from _errors_in(part)
    elif isinstance(answer, Struct):
        for row in answer.info.rows:
            value = getattr(answer, row.name)
            if row.name.endswith("error_code"):
                if value:
                    yield value
            elif isinstance(value, tuple | Struct):
                yield from _errors_in(value)
