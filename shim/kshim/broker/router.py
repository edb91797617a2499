"""From a request frame to its handler and back: header, body, handler, `Step`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from kshim.broker.connection import Connection, ConnectionClosing
from kshim.coordinator.step import Now, RequestContext, Step, Ticket
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.codec import codec
from kshim_protocol.errors import MAX_MESSAGE_CHARACTERS, ErrorCode, KafkaError
from kshim_protocol.frame import BuildError, ProtocolError, build_response_frame, parse_request_header
from kshim_protocol.schema import Request, Struct

if TYPE_CHECKING:
    from kshim.broker.node import Node


Handler = Callable[["Node", Any, RequestContext, "PendingReply"], Step]
H = TypeVar("H", bound=Callable[..., Step])

API_VERSIONS = 18
_KEY_AND_VERSION = struct.Struct(">hh")


def handles(request_class: type[Request[Any]]) -> Callable[[H], H]:
    """Mark the handler of a request class: `(node, request, context, ticket) -> Step`. One a module in `handlers/`."""

    def mark(handler: H) -> H:
        handler.request_class = request_class  # type: ignore[attr-defined]
        return handler

    return mark


def answered(ticket: Ticket, response: object) -> Step:
    """A Step that only answers."""
    step = Step()
    step.replies.append((ticket, response))
    return step


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


class Route:
    """One API in one version: codecs and handler, found once."""

    __slots__ = (
        "api",
        "handler",
        "request_codec",
        "request_is_flexible",
        "response_codec",
        "response_is_flexible",
        "version",
    )

    def __init__(self, api: Api, version: int, handler: Handler) -> None:
        self.api = api
        self.version = version
        self.handler = handler
        self.request_codec = codec(api.request_class(), version)
        self.response_codec = codec(api.response_class(), version)
        self.request_is_flexible = api.is_flexible(version)
        # KIP-511: a client must be able to read the answer before it knows what the broker speaks.
        self.response_is_flexible = self.request_is_flexible and api.key != API_VERSIONS


class PendingReply(Ticket):
    """A request that is owed an answer, and the way back to its connection."""

    __slots__ = ("connection", "correlation_id", "is_answered", "request", "route")

    def __init__(self, connection: Connection, correlation_id: int, route: Route, request: Request[Any]) -> None:
        self.connection = connection
        self.correlation_id = correlation_id
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
            try:
                body = route.response_codec.build(response)
            except BuildError:
                # Texts that repeat a long name may be too long themselves. What else is wrong with it is so still.
                body = route.response_codec.build(with_short_texts(response))
            frame = build_response_frame(self.correlation_id, body, flexible=route.response_is_flexible)
        self.is_answered = True
        self.connection.reply(frame)

    def refuse(self, error: ErrorCode) -> None:
        """Send the error answer of the request."""
        self.complete(self.request.error_response(error, self.route.version))


class NodeContext(RequestContext):
    """The context of a request to one of several nodes: it says what that node coordinates."""

    __slots__ = ("leads_group_shard", "leads_transaction_shard")

    def __init__(
        self, node: Node, api_version: int, client_id: str | None, client_host: str, now: Now, real_ms: int
    ) -> None:
        super().__init__(api_version, client_id, client_host, now, real_ms)
        self.leads_group_shard = node.leads_group_shard
        self.leads_transaction_shard = node.leads_transaction_shard


class Router:
    """Finds the handler of a frame and turns what goes wrong into an answer or a closed connection."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._routes: dict[tuple[int, int], Route] = {}
        self.new_reply: type[PendingReply] = PendingReply
        """What waits for the answer of each request."""
        self._new_context = RequestContext
        if node.cluster.leadership.is_spread:
            self._new_context = partial(NodeContext, node)  # type: ignore[assignment]

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        """Handle one frame; see `FrameRouter.route`."""
        if len(frame) < 4:
            raise ConnectionClosing(f"frame of {len(frame)} bytes")
        key_and_version = _KEY_AND_VERSION.unpack_from(frame)
        route = self._routes.get(key_and_version)
        if route is None:
            route = self.resolve(*key_and_version)
            if route is None:
                self._refuse_version(frame, connection)
                return
        if not connection.is_authenticated:  # whoever forgot the gate lets nobody in, rather than everybody
            raise ConnectionClosing("nobody authenticates clients of this listener")
        try:
            header = parse_request_header(frame, flexible=route.request_is_flexible)
            request, _ = route.request_codec.parse(frame, header.body_at)
        except ProtocolError as error:
            raise ConnectionClosing(str(error)) from None
        context = self._new_context(header.api_version, header.client_id, connection.client_host, now, real_ms)
        ticket = self.new_reply(connection, header.correlation_id, route, request)
        cluster = self._node.cluster
        try:
            cluster.apply(route.handler(self._node, request, context, ticket))
        except KafkaError as error:
            ticket.complete(request.error_response(error.code, header.api_version, error.message))
        except ConnectionClosing:
            raise
        except Exception as error:
            if not ticket.is_answered:
                ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            cluster.defect(error, request)

    def resolve(self, api_key: int, version: int) -> Route | None:
        """The route of (key, version); None for ApiVersions in a version of the future.

        Raises ConnectionClosing for whatever else is not served, as Kafka does.
        """
        api = API_TABLE.get(api_key)
        if api is None:
            raise ConnectionClosing(f"unknown api key {api_key}")
        if not api.min_version <= version <= api.max_version:
            if api.key == API_VERSIONS:
                return None
            raise ConnectionClosing(f"{api.name} has no version {version} here ({api.min_version}-{api.max_version})")
        handler = find_handler(api)
        authorizer = self._node.cluster.authorizer
        if authorizer is not None:
            from kshim.broker.guards.guard import guarded

            handler = guarded(api, handler, authorizer)
        route = Route(api, version, handler)
        self._routes[api_key, version] = route
        return route

    def _refuse_version(self, frame: bytes, connection: Connection) -> None:
        """ApiVersions with an unknown version: a v0 answer that names the versions spoken (KIP-511)."""
        from kshim.broker.handlers.api_versions import unsupported_version

        is_flexible = _KEY_AND_VERSION.unpack_from(frame)[1] > 0
        try:
            header = parse_request_header(frame, flexible=is_flexible)
        except ProtocolError as error:
            raise ConnectionClosing(str(error)) from None
        route = self._routes.get((API_VERSIONS, 0)) or self.resolve(API_VERSIONS, 0)
        assert route is not None
        request = route.request_codec.parse(b"")[0]
        PendingReply(connection, header.correlation_id, route, request).complete(unsupported_version())


def find_handler(api: Api) -> Handler:
    """The handler of an API; imports its module. Raises LookupError when the module marks none."""
    module = import_module(f"kshim.broker.handlers.{api.module}")
    for value in vars(module).values():
        if getattr(value, "request_class", None) is api.request_class():
            handler: Handler = value
            return handler
    raise LookupError(f"kshim.broker.handlers.{api.module} handles no {api.name}Request")
