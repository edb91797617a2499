"""What the HTTP surface takes and gives, without sockets: requests, answers, streams of events and problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

Headers = tuple[tuple[str, str], ...]


class Request(NamedTuple):
    """`path` and `query` are as they were sent, percent-encoded. Names of `headers` are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


class Response(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Headers = ()


Send = Callable[[bytes], Awaitable[None]]


class EventStream(NamedTuple):
    """An answer of server-sent events: `run(send)` sends pieces until the peer has gone, when it is cancelled."""

    run: Callable[[Send], Awaitable[None]]


class Problem(msgspec.Struct, kw_only=True):
    """Why a request was not carried out, as RFC 9457 has it."""

    title: str
    status: int
    detail: str


class ProblemError(Exception):
    """Ends a request with a status and a sentence. `headers` go with the answer."""

    def __init__(self, status: int, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers

    def response(self) -> Response:
        """The answer."""
        return problem_response(self.status, str(self), self.headers)


def problem_response(status: int, detail: str, headers: Headers = ()) -> Response:
    """An answer with problem details."""
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(status, encoded(problem), PROBLEM_JSON, headers)


def encoded(value: object) -> bytes:
    """`value` as JSON in UTF-8. Half a surrogate pair, which Kafka's strings may hold, becomes a question mark."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value
