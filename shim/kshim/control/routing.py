"""Routes: one annotated function says what a request may hold, what is answered and what the description says of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from kshim.control.http import JSON, EventStream, ProblemError, Request, Response, encoded
from kshim.control.sentences import malformed, sentence

H = TypeVar("H", bound=Callable[..., Any])

QUERY: Final = "query"
BODY: Final = "body"
HEADERS: Final = "headers"


class Route:
    """One operation: `method` on `path`, a template such as `/v1/groups/{group}`, answered by `handler`.

    The handler's parameters are the context, those of the path by name, and any of `query`, `headers` and `body`, each a
    msgspec Struct. Its docstring is the description. It returns a Struct or list, None (204), a Response or an EventStream.
    `answers` is the content type of a Response or an EventStream. `problems` are the statuses it may end with besides those
    of every route.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Callable[..., Any],
        *,
        status: int,
        problems: tuple[int, ...],
        answers: str,
    ) -> None:
        self.method = method
        self.path = path
        self.handler = handler
        self.problems = problems
        self.answers = answers
        hints = get_type_hints(handler, include_extras=True)
        self.result = hints.pop("return")
        self.status = 204 if self.result is type(None) else status
        names = list(inspect.signature(handler).parameters)[1:]
        self.query: Any = hints.get(QUERY)
        self.body: Any = hints.get(BODY)
        self.headers: Any = hints.get(HEADERS)
        self.path_types = {name: hints[name] for name in names if name not in (QUERY, BODY, HEADERS)}
        self.name = handler.__name__
        self.summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n")
        self.description = description.strip()

    def call(self, context: object, path: dict[str, str], request: Request) -> object:
        """Check what was sent and call the handler. Raises ProblemError: 400, 415."""
        arguments = {name: _part_of_path(name, path[name], type_) for name, type_ in self.path_types.items()}
        if self.query is not None:
            arguments[QUERY] = _converted(_parameters(request.query), self.query, "the query")
        elif request.query:
            _converted(_parameters(request.query), _Nothing, "the query")
        if self.headers is not None:
            arguments[HEADERS] = _converted(
                {name: value for name, value in request.headers.items() if name in _header_names(self.headers)},
                self.headers,
                "the headers",
            )
        if self.body is not None:
            arguments[BODY] = _body(request, self.body)
        elif request.body:
            raise ProblemError(400, f"{self.method} {self.path} takes no body")
        return self.handler(context, **arguments)


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Found(NamedTuple):
    """The route of a request, and what stands for the names of its path."""

    route: Route
    path: dict[str, str]


class Routes:
    """All routes of an API, found by method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        for route in self.all:
            segments = route.path.split("/")[1:]
            self._by_length.setdefault(len(segments), []).append((segments, route))
        for entries in self._by_length.values():  # words go before names
            entries.sort(key=lambda entry: [segment.startswith("{") for segment in entry[0]])

    def find(self, method: str, path: str) -> Found:
        """Raises ProblemError: 400 for a path that is no UTF-8, 404, 405 with the methods there are."""
        raw = path.split("/")[1:]
        segments = [_decoded(segment) for segment in raw]
        allowed: set[str] = set()
        nearest: str | None = None
        for template, route in self._by_length.get(len(segments), ()):
            names = _match(template, segments)
            if names is None or nearest not in (None, route.path):
                continue
            nearest = route.path
            if method == route.method or (method == "HEAD" and route.method == "GET"):
                return Found(route, names)
            allowed.add(route.method)
        if not allowed:
            raise ProblemError(404, "there is no such path; /openapi.json lists those there are")
        if "GET" in allowed:
            allowed.add("HEAD")
        methods = ", ".join(sorted(allowed))
        raise ProblemError(405, f"this path takes {methods}", (("Allow", methods),))


def _match(template: list[str], segments: list[str]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for part, segment in zip(template, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            names[part[1:-1]] = segment
        elif part != segment:
            return None
    return names


def _decoded(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise ProblemError(400, "the path is not UTF-8") from None


def _parameters(query: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise ProblemError(400, "the query is not UTF-8, or has more than 50 parameters") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ProblemError(400, "the query names a parameter twice")
    return found


def _header_names(type_: Any) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(type_))


def _part_of_path(name: str, value: str, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError as error:
        problem = sentence(error, type_).replace("it must be", f"`{name}` must be", 1)
        raise ProblemError(400, f"the path: {problem}") from None


def _converted(value: dict[str, Any], type_: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, type_, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(400, f"{what}: {sentence(error, type_, value)}") from None


def _body(request: Request, type_: Any) -> Any:
    """Raises ProblemError: 400, 415."""
    text = request.body or b"{}"
    if request.body:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise ProblemError(415, f"the body has to be JSON, with Content-Type: {JSON}, not {kind or 'without one'}")
    try:
        return _decoded_body(text, type_)
    except msgspec.ValidationError as error:
        raise ProblemError(400, f"the body: {sentence(error, type_)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"the body is not JSON: {malformed(error)}") from None


def _decoded_body(text: bytes, type_: Any) -> Any:
    """To JSON, 3.0 is an integer. Raises msgspec's errors."""
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError as first:
        try:
            return msgspec.convert(_with_integers(msgspec.json.decode(text)), type_)
        except msgspec.ValidationError:
            raise first from None


def _with_integers(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _with_integers(each) for key, each in value.items()}
        case list():
            return [_with_integers(each) for each in value]
        case _:
            return value


def response_of(route: Route, result: object) -> Response | EventStream:
    """What a handler returned, as an answer."""
    if isinstance(result, (Response, EventStream)):
        return result
    return Response(204) if result is None else Response(route.status, encoded(result))


class Table:
    """Collects routes: `@table.get("/v1/topics")` in front of a handler."""

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def add(
        self, method: str, path: str, *, status: int = 200, problems: tuple[int, ...] = (), answers: str = JSON
    ) -> Callable[[H], H]:
        """Let the function that follows answer `method` on `path`."""

        def register(handler: H) -> H:
            self.routes.append(Route(method, path, handler, status=status, problems=problems, answers=answers))
            return handler

        return register

    def get(self, path: str, *, problems: tuple[int, ...] = (), answers: str = JSON) -> Callable[[H], H]:
        """See `add`."""
        return self.add("GET", path, problems=problems, answers=answers)

    def post(self, path: str, *, status: int = 200, problems: tuple[int, ...] = ()) -> Callable[[H], H]:
        """See `add`."""
        return self.add("POST", path, status=status, problems=problems)

    def delete(self, path: str, *, problems: tuple[int, ...] = ()) -> Callable[[H], H]:
        """See `add`."""
        return self.add("DELETE", path, problems=problems)
