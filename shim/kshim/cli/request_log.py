"""Log lines about requests: with `-v` those that are answered with an error, with `-vv` all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import unpack_from
from typing import TYPE_CHECKING, Any, Final

from kshim.broker.request import PendingReply
from kshim_protocol.apis import API_TABLE
from kshim_protocol.errors import ErrorCode
from kshim_protocol.schema import Struct

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.router import Router
    from kshim.cli.log import Log
    from kshim.coordinator.step import Now

EVERY_REQUEST: Final = 2
"""The verbosity from which on every request is logged."""


def log_requests(router: Router, log: Log) -> None:
    """Log the requests of a node, according to `log.verbosity`. Must be called before the first request."""

    replaced: type[PendingReply] = router.new_reply

    class LoggedReply(replaced):  # type: ignore[misc, valid-type]
        """Writes a line if the response has errors."""

        __slots__ = ()

        def complete(self, response: Any) -> None:
            super().complete(response)
            errors = sorted(set(errors_in(response)))
            if errors:
                api, host = self.route.api, self.connection.client_host
                names = ", ".join(ErrorCode(code).name for code in errors)
                log.detail(
                    "request_failed",
                    f"{api.name} v{self.route.version} of {host.removeprefix('/')}, correlation id "
                    f"{self.correlation_id}, was answered with {names}",
                    api=api.name,
                    version=self.route.version,
                    host=host,
                    correlation_id=self.correlation_id,
                    errors=[ErrorCode(code).name for code in errors],
                )

    router.new_reply = LoggedReply
    if log.verbosity >= EVERY_REQUEST:
        router.route = _logged(router.route, log)


def errors_in(answer: Any) -> Iterator[int]:
    """The error codes anywhere in a response."""
    if isinstance(answer, tuple):
        for part in answer:
            yield from errors_in(part)
    elif isinstance(answer, Struct):
        for row in answer.info.rows:
            value = getattr(answer, row.name)
            if row.name.endswith("error_code"):
                if value:
                    yield value
            elif isinstance(value, tuple | Struct):
                yield from errors_in(value)


def _logged(
    route: Callable[[bytes, Connection, Now, int], None], log: Log
) -> Callable[[bytes, Connection, Now, int], None]:
    """`FrameRouter.route`, with a line of the log for every request."""

    def route_logged(frame: bytes, connection: Connection, now: Now, real_ms: int) -> None:
        if len(frame) >= 8:
            key, version, correlation_id = unpack_from(">hhi", frame)
            api = API_TABLE.get(key)
            name = api.name if api is not None else f"api {key}"
            log.detail(
                "request",
                f"{name} v{version} of {connection.client_host.removeprefix('/')}, correlation id {correlation_id}, "
                f"{len(frame)} bytes",
                api=name,
                version=version,
                host=connection.client_host,
                correlation_id=correlation_id,
                size_bytes=len(frame),
            )
        route(frame, connection, now, real_ms)

    return route_logged
