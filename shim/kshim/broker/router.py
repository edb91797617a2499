"""From a request frame to its handler and back: header, body, handler, `Step`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from kshim.broker.connection import Connection, ConnectionClosing
from kshim.broker.handlers.short_ways import short_way
from kshim.broker.node import Node
from kshim.broker.request import API_VERSIONS, Handler, PendingReply, Route, find_handler
from kshim.broker.warmup import warmup_steps
from kshim.coordinator.deadlines import Key
from kshim.coordinator.step import Now, RequestContext
from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError, parse_request_header

_KEY_AND_VERSION = struct.Struct(">hh")


class NodeContext(RequestContext):
    """The context of a request to one of several nodes: it says what that node coordinates."""

    def __init__(
        self, node: Node, api_version: int, client_id: str | None, client_host: str, now: Now, real_ms: int
    ) -> None:
        super().__init__(api_version, client_id, client_host, now, real_ms)
        self.leads_shard = node.leads_shard


class Router:
    """The `NodeRouter` of a node: finds the handler of a frame, and turns what goes wrong into an answer or a closed
    connection."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.background_tasks = node.cluster.background_tasks
        self.pace = node.cluster.pace
        self.route: Callable[[bytes, Connection, Now, int], None] = self.handle
        """See `FrameRouter.route`. Whatever stands before the handlers (authentication, a log) replaces it."""
        self.on_closed: list[Callable[[Connection], None]] = []
        """Called with each connection that is gone."""
        self._routes: dict[tuple[int, int], Route] = {}
        self.new_reply: type[PendingReply] = PendingReply
        """What waits for the answer of each request."""
        self._intercept: Callable[[Api, Handler], Handler] | None = None
        self._warming = warmup_steps(self.resolve)
        self._new_context = RequestContext
        if node.cluster.leadership.is_spread:
            self._new_context = partial(NodeContext, node)  # type: ignore[assignment]

    @property
    def on_stop(self) -> Callable[[], None]:
        """See `NodeRouter.on_stop`."""
        return self.node.on_stop

    @on_stop.setter
    def on_stop(self, action: Callable[[], None]) -> None:
        self.node.on_stop = action

    @property
    def on_kill(self) -> Callable[[], None]:
        """See `NodeRouter.on_kill`."""
        return self.node.on_kill

    @on_kill.setter
    def on_kill(self, action: Callable[[], None]) -> None:
        self.node.on_kill = action

    @property
    def on_start(self) -> Callable[[], None]:
        """See `NodeRouter.on_start`."""
        return self.node.on_start

    @on_start.setter
    def on_start(self, action: Callable[[], None]) -> None:
        self.node.on_start = action

    @property
    def on_fired(self) -> Callable[[Key], None]:
        """See `FrameRouter.on_fired`."""
        return self.node.cluster.on_fired

    @on_fired.setter
    def on_fired(self, action: Callable[[Key], None]) -> None:
        self.node.cluster.on_fired = action

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        """Handle one request of a client that may ask; see `FrameRouter.route`."""
        if len(frame) < 4:
            raise ConnectionClosing(f"a frame of {len(frame)} bytes")
        key_and_version = _KEY_AND_VERSION.unpack_from(frame)
        route = self._routes.get(key_and_version)
        if route is None:
            route = self.resolve(*key_and_version)
            if route is None:
                self._refuse_version(frame, connection)
                return
        if not connection.is_authenticated:  # without an authenticator no client is accepted
            raise ConnectionClosing("authentication is not configured for this listener")
        if route.usual is not None and self.new_reply is PendingReply and route.usual(frame, connection, now, real_ms):
            return
        try:
            header = parse_request_header(frame, flexible=route.request_is_flexible)
            request, _ = route.request_codec.parse(frame, header.body_at)
        except ProtocolError as error:
            raise ConnectionClosing(str(error)) from None
        client = connection.client
        client.last_now, client.last_api = now, route.api
        context = self._new_context(header.api_version, header.client_id, connection.client_host, now, real_ms)
        ticket = self.new_reply(connection, header, route, request)
        handler, steps, purgatory = route.handler, self.node.cluster.steps, self.node.cluster.fetch_purgatory
        purgatory.hold()
        try:
            steps.apply(handler(self.node, request, context, ticket))
        except KafkaError as error:
            ticket.complete(request.error_response(error.code, header.api_version, error.message))
        except ConnectionClosing:
            raise
        except Exception as error:
            if not ticket.is_answered:
                ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            steps.defect(error, request)
        finally:
            purgatory.let_go()

    def closed(self, connection: Connection) -> None:
        """See `FrameRouter.closed`."""
        self.node.cluster.fetch_purgatory.cancel(connection)
        now = connection.client.last_now
        if self.node.share_sessions_made is not None and now is not None:
            share_partitions = self.node.cluster.share_partitions
            session, empty_group_id = self.node.share_sessions_made.closed(connection)
            if session is not None:
                share_partitions.release(session, now)
            if empty_group_id is not None:
                share_partitions.nobody_reads(empty_group_id, self.node.leads)
        for forget in self.on_closed:
            forget(connection)

    def next_deadline(self) -> int | None:
        """See `FrameRouter.next_deadline`."""
        return self.node.cluster.next_group_deadline()

    def advance(self, now: Now) -> None:
        """See `FrameRouter.advance`."""
        cluster = self.node.cluster
        try:
            cluster.advance(now)
        except Exception as error:
            cluster.defect(error, None)

    def next_real_deadline(self) -> int | None:
        """See `FrameRouter.next_real_deadline`."""
        cluster = self.node.cluster
        timer_ms = cluster.timers.next_ms
        fetch_ms = cluster.fetch_purgatory.next_deadline()
        if timer_ms is None or (fetch_ms is not None and fetch_ms < timer_ms):
            return fetch_ms
        return timer_ms

    def advance_real(self, real_ms: int) -> None:
        """See `FrameRouter.advance_real`."""
        self.node.cluster.fetch_purgatory.advance(real_ms)
        self.node.cluster.timers.advance(real_ms)

    def finish_loading(self) -> None:
        """See `FrameRouter.finish_loading`."""
        for host in self.node.cluster.coordinators.values():
            host.loader.finish()

    def warm_up(self) -> bool:
        """See `FrameRouter.warm_up`."""
        return next(self._warming, None) is not None

    def intercept(self, intercept: Callable[[Api, Handler], Handler] | None) -> None:
        """Have requests handled by what `intercept` makes of each API's handler, or by the handlers again.

        From the next request on. Without it nothing is asked for a request.
        """
        self._intercept = intercept
        self._routes.clear()

    def intercepted(self, api: Api, handler: Handler) -> Handler:
        """What handles the requests of an API: a handler, or what `intercept` makes of it."""
        return handler if self._intercept is None else self._intercept(api, handler)

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
            raise ConnectionClosing(
                f"unsupported version {version} of {api.name} (supported: {api.min_version}-{api.max_version})"
            )
        handler = find_handler(api)
        authorizer = self.node.cluster.authorizer
        if authorizer is not None:
            from kshim.broker.guards.guard import guarded

            handler = guarded(api, handler, authorizer)
        route = Route(api, version, self.intercepted(api, handler))
        if self._intercept is None and authorizer is None:
            route.usual = short_way(self.node, route)
        self._routes[api_key, version] = route
        return route

    def _refuse_version(self, frame: bytes, connection: Connection) -> None:
        """ApiVersions with an unknown version: a v0 answer that names the versions spoken (KIP-511)."""
        from kshim.broker.handlers.cluster.api_versions import unsupported_version

        is_flexible = _KEY_AND_VERSION.unpack_from(frame)[1] > 0
        try:
            header = parse_request_header(frame, flexible=is_flexible)
        except ProtocolError as error:
            raise ConnectionClosing(str(error)) from None
        route = self._routes.get((API_VERSIONS, 0)) or self.resolve(API_VERSIONS, 0)
        assert route is not None
        request = route.request_codec.parse(b"")[0]
        self.new_reply(connection, header, route, request).complete(unsupported_version())
