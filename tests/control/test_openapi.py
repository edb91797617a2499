"""The interface against its own description: whatever is sent, the answer is one that the description has."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import one_of
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from tests.control.members import Member
from tests.control.service import PATIENCE_S, Service, a_service

STREAM = "/v1/history/stream"
NOT_NOW = {503, 504}
"""Answers of 500 and more that are meant: not yet, and not within the time."""
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "404", "409", "422", "503", "504"]

[checks.negative_data_rejection]
expected-statuses = ["400", "404", "405", "413", "415", "422", "431"]
"""
"""What is sent as described is well-formed; it may still name what does not exist or what Kafka does not take."""
PARTITIONS_MAX = 5
"""Random topics shall not need more memory than the machine has."""
PARTITIONS_REFUSED = 10_000
"""From here on a topic has more than the description allows, and is left so, as it has to be refused."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("openapi"), "--brokers=2", "--topic=orders:3") as service:
        yield service
        assert service.get("/health") == {"status": "ok"}
        for node in (1, 2):
            service.ask("POST", f"/v1/nodes/{node}/start")
        service.ask("DELETE", "/v1/faults")
        with Member(service.bootstrap, "after-all") as member:
            service.ask("POST", "/v1/groups/after-all/coordinator", {"node": 1})
            assert member.join().heartbeat() == 0


def test_every_operation_has_a_summary_and_says_how_it_may_end(target: Service) -> None:
    document = target.get("/openapi.json")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert operation["summary"].endswith(".")
        assert {"400", "401"} < operation["responses"].keys()


def test_a_method_that_is_not_described_is_refused_with_those_that_are(target: Service) -> None:
    """schemathesis asks this only in the phase that its command line has."""
    for path, operations in target.get("/openapi.json")["paths"].items():
        described = {method.upper() for method in operations}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - described:
            answer = target.ask(method, re.sub(r"\{\w+\}", "1", path))
            assert answer.status == 405, (method, path)
            assert set(answer.headers["allow"].split(", ")) - {"HEAD"} == described


def shortened(case: Any) -> None:
    """Nothing may wait for long, or need much memory."""
    if case.path.endswith("/wait"):
        query = case.query if isinstance(case.query, dict) else {}
        with suppress(TypeError, ValueError):
            if not 0 < float(query.get("timeout", 10)) <= 300 or "timeout" not in query:
                query["timeout"] = query.get("timeout", 0.01)
            else:
                query["timeout"] = 0.01
        case.query = query
    if isinstance(case.body, dict) and isinstance(partitions := case.body.get("partitions"), int):
        case.body["partitions"] = min(partitions, PARTITIONS_MAX) if partitions < PARTITIONS_REFUSED else partitions


def holds_against_its_description(target: Service, request_count: int) -> None:
    config = SchemathesisConfig.from_str(CONFIG)
    schema: Any = schemathesis.openapi.from_url(f"{target.url}/openapi.json", config=config)
    operations = [found.ok() for found in schema.exclude(path=STREAM).get_all_operations() if isinstance(found, Ok)]
    assert len(operations) > 30
    checks = [check for check in CHECKS.get_all() if check.__name__ != "not_a_server_error"]
    each = max(request_count // len(operations), 1)
    for operation in operations:

        @settings(
            max_examples=each,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode]))
        def answer_is_described(case: Any) -> None:
            shortened(case)
            answer = case.call(timeout=PATIENCE_S)
            assert answer.status_code < 500 or answer.status_code in NOT_NOW, answer.text
            case.validate_response(answer, checks=checks)

        answer_is_described()


def test_answers_are_as_described(target: Service) -> None:
    holds_against_its_description(target, 100)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_twenty_thousand_answers_are_as_described(target: Service) -> None:
    holds_against_its_description(target, 20_000)


class Fuzz:
    """Random requests, from the description and from nothing, over connections that are kept."""

    def __init__(self, target: Service, seed: int) -> None:
        self._target = target
        self._random = Random(seed)
        paths = target.get("/openapi.json")["paths"]
        self._operations = [(method.upper(), path) for path in paths for method in paths[path] if path != STREAM]
        self._connection = target.connect()
        self.statuses: dict[int, int] = {}

    def requests(self, count: int) -> None:
        for _ in range(count):
            if self._random.random() < 0.02:
                self._garbage()
            else:
                self._request()

    def close(self) -> None:
        self._connection.close()

    def _request(self) -> None:
        random = self._random
        method, path = random.choice(self._operations)
        if random.random() < 0.05:
            method = random.choice(["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "X" * random.randrange(1, 20)])
        path = re.sub(r"\{\w+\}", lambda _: quote(self._text(), safe=""), path)
        if random.random() < 0.03:
            path = random.choice([path + "/", "//" + path, path.replace("/", "%2F"), path + "%ff", "*", path + "/../x"])
        query = [f"timeout={random.choice(['0.001', '0.001', '0', '-1', 'x'])}"] if path.endswith("/wait") else []
        query += [f"{quote(self._name())}={quote(self._text())}" for _ in range(random.choice([0, 0, 0, 1, 2]))]
        body = self._body(path) if method in ("POST", "DELETE") and random.random() < 0.8 else None
        headers = {}
        if body is not None and random.random() < 0.97:
            headers["Content-Type"] = "application/json"
        if random.random() < 0.03:
            headers[random.choice(["Origin", "Last-Event-ID", "Expect", "Sec-Fetch-Site", "Authorization"])] = "x"
        self._connection.request(method, path + ("?" + "&".join(query) if query else ""), body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        assert answer.status < 500 or answer.status in NOT_NOW, (method, path, query, body, data)
        if data and method != "HEAD":
            kind = answer.getheader("Content-Type", "").partition(";")[0]
            assert kind in ("application/json", "application/problem+json", "text/plain")
            if kind != "text/plain":
                json.loads(data)
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1

    def _garbage(self) -> None:
        """Bytes that are no request, or half of one."""
        random = self._random
        pieces = [
            b"GET /ready HTTP/1.1\r\n",
            b"Host: 127.0.0.1\r\n",
            b"Content-Length: 99\r\n",
            b"\r\n",
            b"\0" * 9,
            b"{}",
        ]
        pieces += [
            random.randbytes(random.randrange(200)),
            b"Transfer-Encoding: chunked\r\n",
            b"PRI * HTTP/2.0\r\n\r\n",
        ]
        host, _, port = self._target.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as sock, suppress(OSError):
            sock.sendall(b"".join(random.choices(pieces, k=random.randrange(1, 6))))
            if random.random() < 0.5:
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65_536):
                    pass

    def _name(self) -> str:
        return self._random.choice(
            ["limit", "after", "group", "partition", "offset", "isolation", "members", "state", "x"]
        )

    def _text(self) -> str:
        random = self._random
        some = [
            "orders",
            "g",
            "1",
            "2",
            "0",
            "-1",
            "fault-1",
            "Stable",
            "__consumer_offsets",
            "\u00fc/\0",
            "a" * 300,
            "1e9",
            "",
        ]
        return random.choice([*some, str(random.randrange(10**12)), chr(random.randrange(1, 0xD800)) * 3])

    def _value(self, depth: int = 0) -> Any:
        random = self._random
        kind = random.randrange(9 if depth < 3 else 7)
        match kind:
            case 0:
                return random.choice([None, True, False])
            case 1:
                return random.choice([0, 1, 2, 3, -1, 2**31, 2**63, 2**70])
            case 2:
                return random.choice([0.5, -0.0, 1e300, 3.0])
            case 7:
                return [self._value(depth + 1) for _ in range(random.randrange(3))]
            case 8:
                return {self._text(): self._value(depth + 1) for _ in range(random.randrange(3))}
            case _:
                return self._text()

    def _body(self, path: str) -> bytes:
        random = self._random
        good: dict[str, Any] = random.choice(
            [
                {"name": f"t{random.randrange(30)}", "partitions": random.randrange(1, 4)},
                {"records": [{"value": "v", "partition": random.randrange(4)}]},
                {"node": random.choice([1, 2, 3])},
                {"member": "m"},
                {"instance_id": "i"},
                {"seconds": random.choice([0, 0.5, 60])},
                {"on": random.choice(["Heartbeat", "*", "Append"]), "do": {"error": "NOT_COORDINATOR"}, "when": "once"},
                {"on": "Fetch", "do": random.choice(["hang", "truncate", {"delay": 0.1}]), "when": {"times": 2}},
                {},
            ]
        )
        for _ in range(random.choice([0, 0, 0, 1, 2])):
            key = random.choice([*good, self._text()])
            if key != "partitions":
                good[key] = self._value()
        data = json.dumps(good).encode()
        return data if random.random() < 0.95 else data[: random.randrange(len(data) + 1)] + random.randbytes(3)


def test_random_requests_are_answered(target: Service) -> None:
    with closing(Fuzz(target, seed=1)) as fuzz:
        fuzz.requests(800)
    assert {200, 201, 204, 400, 404, 405} <= fuzz.statuses.keys()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_eighty_thousand_random_requests_are_answered(target: Service) -> None:
    for seed in range(8):
        with closing(Fuzz(target, seed)) as fuzz:
            fuzz.requests(10_000)
