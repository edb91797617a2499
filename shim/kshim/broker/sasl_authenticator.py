"""Authentication of clients of SASL listeners, before their requests reach the router."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kshim.broker.connection import Connection, ConnectionClosing
from kshim.broker.request import PendingReply, Route
from kshim.coordinator.step import Now, RequestContext, Step
from kshim.security.authentication.listener import SaslListener
from kshim.security.authentication.session import Refusal, SaslSession, SaslState
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError, parse_request_header
from kshim_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kshim_protocol.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from kshim.broker.node import Node
    from kshim.broker.request import Handler
    from kshim.broker.router import Router


SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36

_key_and_version = Struct(">hh").unpack_from
_pack_size = Struct(">i").pack


class SaslAuthenticator:
    """Authenticates the connections of SASL listeners, and hands on the requests of those that are.

    `listeners` holds them by name; connections of other listeners pass. What the router's `route` was handles a request
    then. Kafka: SaslServerAuthenticator.
    """

    def __init__(self, router: Router, listeners: Mapping[str, SaslListener]) -> None:
        self._router = router
        self._listeners = listeners
        self.sessions: dict[Connection, SaslSession] = {}
        self._pass_on = router.route
        router.route = self.route
        router.on_closed.append(self.closed)

    def route(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        """See `FrameRouter.route`."""
        session = self.sessions.get(connection)
        if session is None:
            if connection.security_protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
                self._pass_on(frame, connection, now, real_ms)
                return
            session = self.sessions[connection] = SaslSession(self._listeners[connection.listener_name])
        if session.state is SaslState.COMPLETE and self._passes(frame, session, real_ms):
            self._pass_on(frame, connection, now, real_ms)
            return
        match session.state:
            case SaslState.FAILED:
                raise ConnectionClosing("a request after a failed authentication")
            case SaslState.RAW_TOKENS:
                self._raw_token(frame, connection, session, real_ms)
            case SaslState.TOKENS:
                self._token(frame, connection, session, now, real_ms)
            case SaslState.HANDSHAKE | SaslState.HANDSHAKE_OR_VERSIONS | SaslState.COMPLETE:
                self._handshake(frame, connection, session, now, real_ms)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self.sessions.pop(connection, None)

    @staticmethod
    def _passes(frame: bytes, session: SaslSession, real_ms: int) -> bool:
        """Whether a request after the authentication goes its way: all do but one that begins it again (KIP-368)."""
        if session.expires_ms is None:
            return True
        if len(frame) >= 4 and _key_and_version(frame)[0] == SASL_HANDSHAKE:
            return not session.may_begin_again(real_ms)
        if real_ms > session.expires_ms:
            raise ConnectionClosing("the session has expired without re-authentication")
        return True

    # Requests

    def _handshake(self, frame: bytes, connection: Connection, session: SaslSession, now: Now, real_ms: int) -> None:
        key = _key_and_version(frame)[0] if len(frame) >= 4 else -1
        if key == API_VERSIONS and session.state is SaslState.HANDSHAKE_OR_VERSIONS:
            self._versions(frame, connection, session, now, real_ms)
            return
        if key != SASL_HANDSHAKE:
            raise ConnectionClosing(f"a request of api key {key} before SASL authentication")
        self._handle(partial(self._choose, session), self._parsed(frame, connection), now, real_ms)

    def _choose(
        self, session: SaslSession, _node: Node, request: Any, context: RequestContext, ticket: PendingReply
    ) -> Step:
        """The handler of SaslHandshake."""
        mechanisms = tuple(session.listener.mechanisms)
        try:
            session.choose(request.mechanism, as_raw=context.api_version == 0)
        except Refusal as refusal:
            ticket.complete(SaslHandshakeResponse(error_code=refusal.error, mechanisms=mechanisms))
            self._end_later(ticket.connection, session, refusal.reason)
        else:
            ticket.complete(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=mechanisms))
        return Step()

    def _versions(self, frame: bytes, connection: Connection, session: SaslSession, now: Now, real_ms: int) -> None:
        """ApiVersions counts as asked only when the answer is no error: a client may ask again in another version."""
        if self._router.resolve(*_key_and_version(frame)) is None:
            self._pass_on(frame, connection, now, real_ms)
            return
        ticket = self._parsed(frame, connection)
        context = RequestContext(ticket.route.version, None, connection.client_host, now, real_ms)
        step = ticket.route.handler(self._router.node, ticket.request, context, ticket)
        (_, response), *_ = step.replies
        if response.error_code == ErrorCode.NONE:
            session.told_versions()
        ticket.complete(response)

    def _token(self, frame: bytes, connection: Connection, session: SaslSession, now: Now, real_ms: int) -> None:
        ticket = self._parsed(frame, connection)
        if ticket.route.api.key != SASL_AUTHENTICATE:
            session.state = SaslState.FAILED
            name = ticket.route.api.name
            answer = ticket.request.error_response(
                ErrorCode.ILLEGAL_SASL_STATE, ticket.route.version, f"Unexpected request {name} during authentication"
            )
            self._end_later(connection, session, f"{name} during SASL authentication", ticket, answer)
            return
        self._handle(partial(self._evaluate, session), ticket, now, real_ms)

    def _evaluate(
        self, session: SaslSession, _node: Node, request: Any, context: RequestContext, ticket: PendingReply
    ) -> Step:
        """The handler of SaslAuthenticate."""
        connection = ticket.connection
        try:
            token, lifetime_ms = session.evaluate(request.auth_bytes, context.real_ms)
        except Refusal as refusal:
            if refusal.message is None:
                self._end_later(connection, session, refusal.reason)
            else:
                answer = request.error_response(refusal.error, context.api_version, refusal.message)
                self._end_later(connection, session, refusal.reason, ticket, answer)
            return Step()
        self._know(connection, session)
        ticket.complete(
            SaslAuthenticateResponse(
                error_code=ErrorCode.NONE, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
            )
        )
        return Step()

    def _handle(self, handler: Handler, ticket: PendingReply, now: Now, real_ms: int) -> None:
        """Have a request of the authentication handled, or what stands before handlers do with it what it does."""
        node, route = self._router.node, ticket.route
        context = RequestContext(route.version, ticket.header.client_id, ticket.connection.client_host, now, real_ms)
        node.cluster.apply(self._router.intercepted(route.api, handler)(node, ticket.request, context, ticket))

    def _raw_token(self, frame: bytes, connection: Connection, session: SaslSession, real_ms: int) -> None:
        """A token without any header, as SaslHandshake v0 announced; the answer is a bare token too, or the end."""
        try:
            token, _ = session.evaluate(frame, real_ms)
        except Refusal as refusal:
            self._end_later(connection, session, refusal.reason)
            return
        self._know(connection, session)
        connection.reply(_pack_size(len(token)) + token)

    def _parsed(self, frame: bytes, connection: Connection) -> PendingReply:
        """The request and the way to answer it. Raises ConnectionClosing."""
        if len(frame) < 4:
            raise ConnectionClosing(f"a frame of {len(frame)} bytes")
        route: Route | None = self._router.resolve(*_key_and_version(frame))
        if route is None:
            raise ConnectionClosing("ApiVersions in an unknown version during SASL authentication")
        try:
            header = parse_request_header(frame, flexible=route.request_is_flexible)
            request, _ = route.request_codec.parse(frame, header.body_at)
        except ProtocolError as error:
            raise ConnectionClosing(str(error)) from None
        return PendingReply(connection, header, route, request)

    # What follows

    @staticmethod
    def _know(connection: Connection, session: SaslSession) -> None:
        if session.state is SaslState.COMPLETE:
            assert session.principal is not None
            connection.principal = session.principal
            connection.is_authenticated = True

    def _end_later(
        self,
        connection: Connection,
        session: SaslSession,
        reason: str,
        ticket: PendingReply | None = None,
        answer: object = None,
    ) -> None:
        """Answer and close after a while, so that guessing is slow; the reason of a refusal stays here."""

        def end() -> None:
            if connection.is_closed:
                return
            if ticket is not None:
                ticket.complete(answer)
            connection.hang_up(reason)

        self._router.node.cluster.timers.after(session.listener.failure_delay_ms, end, name="failed_authentication")
