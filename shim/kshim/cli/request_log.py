"""Log lines about requests: with `-v` those that are answered with an error, with `-vv` all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kshim.broker.request import PendingReply, errors_in
from kshim.cli.addresses import Address
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import ProtocolError, RequestHeader, parse_request_header

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.router import Router
    from kshim.cli.log import Log
    from kshim.coordinator.step import Now

EVERY_REQUEST: Final = 2
"""The verbosity from which on every request is logged."""

NO_FAILURES: Final = frozenset({ErrorCode.MEMBER_ID_REQUIRED})
"""The usual answer to a new member's first JoinGroup. The coordinator's own line says which member id was issued."""


def log_requests(router: Router, log: Log) -> None:
    """Log the requests of a node, according to `log.verbosity`. Must be called before the first request."""

    replaced: type[PendingReply] = router.new_reply

    class LoggedReply(replaced):  # type: ignore[misc, valid-type]
        """Writes a line if the response has errors."""

        __slots__ = ()

        def complete(self, response: Any) -> None:
            super().complete(response)
            names = [ErrorCode(code).name for code in sorted(set(errors_in(response)) - NO_FAILURES)]
            if names:
                sentence, fields = _described(self.header, self.connection)
                answer = f"{sentence}, was answered with {', '.join(names)}"
                log.detail("request_failed", answer, **fields, errors=names)

    router.new_reply = LoggedReply
    if log.verbosity >= EVERY_REQUEST:
        router.route = _logged(router.route, log)


def _logged(
    route: Callable[[bytes, Connection, Now, int], None], log: Log
) -> Callable[[bytes, Connection, Now, int], None]:
    """`FrameRouter.route`, with a line of the log for every request."""

    def route_logged(frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        with suppress(ProtocolError):  # the line about the closed connection says what is wrong with it
            sentence, fields = _described(parse_request_header(frame, flexible=False), connection)
            log.detail("request", f"{sentence}, {len(frame)} bytes", **fields, size_bytes=len(frame))
        route(frame, connection, now, real_ms)

    return route_logged


def _described(header: RequestHeader, connection: Connection) -> tuple[str, dict[str, Any]]:
    """A request as text and as fields."""
    api = API_TABLE.get(header.api_key)
    name = api.name if api is not None else f"api {header.api_key}"
    client = Address(connection.client_host.removeprefix("/"), connection.client_port)
    fields = {
        "api": name,
        "version": header.api_version,
        "host": connection.client_host,
        "port": connection.client_port,
        "client_id": header.client_id,
        "correlation_id": header.correlation_id,
    }
    text = f"{name} v{header.api_version} of {client}, client id {header.client_id}, correlation id {header.correlation_id}"
    return text, fields
