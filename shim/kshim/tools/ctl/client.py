"""The HTTP interface from its other side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

_GRACE_S: Final = 10.0
"""How much longer than the server a client waits."""


class ControlError(Exception):
    """The server refused a request; `str(error)` is its sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Unreachable(Exception):
    """Nobody answers at that address, or not as a kshim does."""


def control_url(text: str) -> str:
    """The URL that `text` says: a URL or HOST:PORT. Raises ValueError.

    >>> control_url("127.0.0.1:9080"), control_url("http://[::1]:9080/")
    ('http://127.0.0.1:9080', 'http://[::1]:9080')
    """
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        is_right = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path in ("", "/") and url.isprintable()
        )
        has_port = parts.port != 0 and (parts.port is not None or "://" in text)
    except ValueError:
        is_right = has_port = False
    if not is_right or not has_port or " " in url:
        raise ValueError(f"{text!r} is neither a URL such as http://127.0.0.1:9080 nor HOST:PORT")
    return url.rstrip("/")


class ControlClient:
    """Asks one server. `url` is one of `control_url`. Proxies are not used."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._opener: OpenerDirector = build_opener(ProxyHandler({}))

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        timeout_s: float = 0.0,
    ) -> Any:
        """One request; returns the document of the answer, text where it is no JSON, None where there is none.

        `timeout_s` is how long the server may take. Raises ControlError, Unreachable.
        """
        with self._open(method, path, query, body, timeout_s + _GRACE_S) as answer:
            try:
                data = answer.read()
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from None
            return _document(data, answer.headers.get_content_type())

    def follow(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[Any]:
        """The events of a stream, until it ends. Raises ControlError, Unreachable."""
        with self._open("GET", path, query, None, 60.0) as answer:
            try:
                for line in answer:
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from None

    def _open(self, method: str, path: str, query: Mapping[str, object] | None, body: object, timeout_s: float) -> Any:
        target = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        try:
            return self._opener.open(Request(target, data, headers, method=method), timeout=timeout_s)
        except HTTPError as error:
            with error:
                raise ControlError(error.code, _detail(error)) from None
        except URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, reason: object) -> Unreachable:
        match reason:
            case (
                HTTPException() | ConnectionResetError()
            ):  # a broker closes the connection: "GET " is no size of a frame
                problem = "no HTTP is spoken there. Is this the Kafka port? `kshim serve --control` logs the URL of its HTTP interface"
            case ConnectionRefusedError():
                problem = "nothing listens there. Does `kshim serve` run with --control?"
            case OSError(strerror=str(text)):
                problem = text
            case _:
                problem = str(reason)
        return Unreachable(f"{self._url}: {problem}")


def quoted(text: object) -> str:
    """A part of a path."""
    return quote(str(text), safe="")


def _document(data: bytes, content_type: str) -> Any:
    if not data:
        return None
    if content_type != "application/json":
        return data.decode("utf-8", "replace")
    try:
        return json.loads(data)
    except ValueError as error:
        raise Unreachable(f"the answer is not JSON: {error}") from None


def _detail(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP {error.code} {error.reason}"
