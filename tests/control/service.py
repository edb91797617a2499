"""Brokers with their HTTP interface, as a process, and a client for it: the standard library's."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.cli.process import Kshim

PATIENCE_S = 20


class Answer(NamedTuple):
    """What came back. `json` is None where there is no body."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text) if self.text else None


class Service:
    """A kshim with `--control`: `url` is its HTTP interface, `bootstrap` the address of its brokers."""

    def __init__(self, process: Kshim) -> None:
        self.process = process
        self.bootstrap = process.bootstrap
        found = re.search(r"Control over HTTP on (\S+)", process.log)
        assert found is not None, process.log
        self.url = found[1]
        self.address = urlsplit(self.url).netloc

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own. A body is sent as JSON, bytes as they are."""
        sent = dict(headers or {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        """The document at `path`, which has to be there."""
        answer = self.ask("GET", path, headers=headers)
        assert answer.status == 200, answer
        return answer.json


@contextmanager
def a_service(folder: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """A new process; no defect may have been logged by its end."""
    listening = ("--listen=127.0.0.1:0", "--control=127.0.0.1:0")
    with Kshim(folder / "log", *listening, *options, environment=environment) as process:
        service = Service(process)
        yield service
        assert " ERROR " not in process.log, process.log
