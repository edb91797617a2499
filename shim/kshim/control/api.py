"""The API as a whole: from a request to its answer, without sockets."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Final

from kshim.control.access import Access
from kshim.control.context import PageContext
from kshim.control.http import EventStream, ProblemError, Request, Response, problem_response
from kshim.control.routing import Routes, response_of
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError

_ALWAYS: Final = frozenset({"/health", "/openapi.json", "/v1/reset"})
"""What is answered while the brokers are being reset."""

_STATUS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_MEMBER_ID: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.NOT_COORDINATOR: 503,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
}
"""What HTTP makes of Kafka's errors; of others 422."""


class ControlApi:
    """Answers requests with `routes`, whose handlers are given what `context()` returns.

    A handler that is a plain function runs at once, so no request of a Kafka client comes in between. `after` is called after
    every request, for timers that it may have set; `report(error, request)` with an exception that nobody expected.
    """

    def __init__(
        self,
        routes: Routes,
        context: Callable[[], PageContext],
        access: Access,
        *,
        after: Callable[[], None],
        report: Callable[[Exception, object], None],
    ) -> None:
        self._routes = routes
        self._context = context
        self._access = access
        self._after = after
        self._report = report

    def check(self, head: Request) -> None:
        """Whether the head of a request allows to read it further. Raises ProblemError."""
        self._access.check(head)

    async def answer(self, request: Request) -> Response | EventStream:
        """Carry out a request that was checked."""
        try:
            found = self._routes.find(request.method, request.path)
            context = self._context()
            if context.is_over and found.route.path not in _ALWAYS:
                raise ProblemError(503, "the brokers are being reset", (("Retry-After", "1"),))
            try:
                result = found.route.call(context, found.path, request)
            finally:
                self._after()
            if isawaitable(result):
                result = await result
            return response_of(found.route, result)
        except ProblemError as problem:
            return problem.response()
        except KafkaError as error:
            return problem_response(_STATUS.get(error.code, 422), f"{error.code.name}: {error.message or 'refused'}")
        except LogError as error:
            return problem_response(503, f"the log cannot be written: {error}")
        except Exception as error:
            self._report(error, f"{request.method} {request.path}")
            return problem_response(500, "a defect of kshim; its log says more")
