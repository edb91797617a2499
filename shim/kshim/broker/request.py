"""One request on its way: which handler answers it, and how the answer gets back to its connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kshim.broker.client_activity import LastRequest
from kshim.broker.connection import Connection
from kshim.broker.handler_table import modules_of
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.apis import Api
from kshim_protocol.codec import codec
from kshim_protocol.errors import MAX_MESSAGE_CHARACTERS, ErrorCode
from kshim_protocol.frame import (
    BuildError,
    RequestHeader,
    build_response_frame,
    build_response_pieces,
    parse_request_header,
)
from kshim_protocol.rows import Rows
from kshim_protocol.schema import Request, Struct

if TYPE_CHECKING:
    from kshim.broker.node import Node

Handler = Callable[["Node", Any, RequestContext, "PendingReply"], Step]
H = TypeVar("H", bound=Callable[..., Step])

_BEHIND_CORRELATION_ID: Final = 8
_MOST_KEPT_BYTES: Final = 1024  # of a request: every connection may have one

API_VERSIONS = 18
FETCH = 1
HEARTBEAT = 12
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
PRODUCE = 0


def handles(request_class: type[Request[Any]]) -> Callable[[H], H]:
    """Mark the handler of a request class: `(node, request, context, ticket) -> Step`. One a module in `handlers/`."""

    def mark(handler: H) -> H:
        handler.request_class = request_class  # type: ignore[attr-defined]
        return handler

    return mark


def needs_feature(name: str) -> Callable[[Handler], Handler]:
    """Mark a handler of an API that level 0 of a feature switches off: it is listed, and answers UNSUPPORTED_VERSION."""

    def mark(handler: Handler) -> Handler:
        def if_enabled(node: Node, request: Request[Any], context: RequestContext, ticket: PendingReply) -> Step:
            if node.cluster.features.levels[name] == 0:
                return answered(ticket, request.error_response(ErrorCode.UNSUPPORTED_VERSION, context.api_version))
            return handler(node, request, context, ticket)

        if_enabled.__name__ = handler.__name__
        return handles(handler.request_class)(if_enabled)  # type: ignore[attr-defined]

    return mark


def answered(ticket: Ticket, response: object) -> Step:
    """A Step that only answers."""
    step = Step()
    step.replies.append((ticket, response))
    return step


def answered_alike(ticket: PendingReply, facts: object, make: Callable[[], Struct]) -> Step:
    """A Step that only answers, with what `make` makes: it is kept, with its bytes, as long as `facts` are equal.

    For requests that everybody asks in the same words. The response must not be changed by anybody.
    """
    route = ticket.route
    if route.kept_response is None or route.kept_facts != facts:
        route.kept_facts, route.kept_response, route.kept_body = facts, make(), None
    return answered(ticket, route.kept_response)


def with_short_texts(response: Struct) -> Struct:
    """The response with its error messages cut off where they are longer than any reader allows."""
    for row in response.info.rows:
        value = getattr(response, row.name)
        if row.name == "error_message" and value is not None and len(value) > MAX_MESSAGE_CHARACTERS:
            setattr(response, row.name, f"{value[:MAX_MESSAGE_CHARACTERS]}...")
        elif row.type == "array" and not isinstance(row.element, str):
            for element in value or ():
                with_short_texts(element)
    return response


def errors_in(answer: Any) -> Iterator[int]:
    """The error codes anywhere in a response."""
    if isinstance(answer, tuple) or type(answer) is Rows:
        for part in answer:
            yield from errors_in(part)
    elif isinstance(answer, Struct):
        for row in answer.info.rows:
            value = getattr(answer, row.name)
            if row.name.endswith("error_code"):
                if value:
                    yield value
            elif isinstance(value, tuple | Struct) or type(value) is Rows:
                yield from errors_in(value)


class Route:
    """One API in one version: codecs and handler, found once."""

    def __init__(self, api: Api, version: int, handler: Handler) -> None:
        self.api = api
        self.version = version
        self.handler = handler
        self.request_codec = codec(api.request_class(), version)
        self.response_codec = codec(api.response_class(), version)
        self.request_is_flexible = api.is_flexible(version)
        # KIP-511: a client must be able to read the answer before it knows what the broker speaks.
        self.response_is_flexible = self.request_is_flexible and api.key != API_VERSIONS
        self.usual: Callable[[bytes, Connection, Now, int], bool] | None = None
        """What handles requests of the usual shape as a whole; it returns False for one that it leaves to the handler.
        Nobody hears of the request and its answer, so it is there only where nobody wants to."""
        self.kept_facts: object = None
        self.kept_response: Struct | None = None
        """The last response of `answered_alike`, and its bytes once it was sent."""
        self.kept_body: bytes | None = None


def parsed_once(frame: bytes, route: Route, last: LastRequest | None) -> tuple[Any, LastRequest | None]:
    """A request, which need not be parsed if it is the same as the last on its connection; and what to keep for the next.

    Raises ProtocolError.
    """
    said = frame[_BEHIND_CORRELATION_ID:]
    if last is not None and last.route is route and last.said == said:
        return last.request, last
    header = parse_request_header(frame, flexible=route.request_is_flexible)
    request = route.request_codec.parse(frame, header.body_at)[0]
    return request, None if len(said) > _MOST_KEPT_BYTES else LastRequest(route, said, request)


class PendingReply(Ticket):
    """A request that is owed an answer, and the way back to its connection."""

    __slots__ = ("connection", "header", "is_answered", "request", "route")

    def __init__(self, connection: Connection, header: RequestHeader, route: Route, request: Request[Any]) -> None:
        self.connection = connection
        self.header = header
        self.route = route
        self.request = request
        self.is_answered = False

    def complete(self, response: Any) -> None:
        """Send `response` (None: end the request without an answer, as Produce with acks=0 asks)."""
        if self.connection.is_closed:
            return
        frame = None
        if response is not None:
            route = self.route
            if route.response_codec.build_pieces is not None:
                self._complete_in_pieces(response, route.response_codec.build_pieces)
                return
            if (kept := route.kept_response) is not None and kept is response:
                body = route.kept_body = route.kept_body or route.response_codec.build(kept)
            else:
                try:
                    body = route.response_codec.build(response)
                except BuildError:
                    # Texts that repeat a long name may be too long themselves. What else is wrong with it is so still.
                    body = route.response_codec.build(with_short_texts(response))
            frame = build_response_frame(self.header.correlation_id, body, flexible=route.response_is_flexible)
        self.is_answered = True
        self.connection.reply(frame)

    def _complete_in_pieces(self, response: Any, build_pieces: Callable[[Any], list[bytes]]) -> None:
        """Send `response`, whose records are not copied."""
        try:
            body = build_pieces(response)
        except BuildError:
            body = build_pieces(with_short_texts(response))
        frame, *rest = build_response_pieces(self.header.correlation_id, body, flexible=self.route.response_is_flexible)
        self.is_answered = True
        self.connection.reply(frame, rest)

    def refuse(self, error: ErrorCode) -> None:
        """Send the error answer of the request."""
        self.complete(self.request.error_response(error, self.route.version))


def find_handler(api: Api) -> Handler:
    """The handler of an API; imports what is needed. Raises LookupError when there is none."""
    for module in map(import_module, modules_of(api.module)):
        for value in getattr(module, "HANDLERS", vars(module).values()):
            if getattr(value, "request_class", None) is api.request_class():
                handler: Handler = value
                return handler
    raise LookupError(f"there is no handler for {api.name}")
