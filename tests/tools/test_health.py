"""Whether a broker answers, as a health check sees it."""

from __future__ import annotations

import socket

from kshim.cli.addresses import parse_address
from kshim.testing import Kshim
from kshim.tools.health import problem_of


def test_a_broker_that_answers_is_healthy() -> None:
    with Kshim() as brokers:
        assert problem_of(*parse_address(brokers.bootstrap_servers)) is None


def test_one_that_accepts_connections_but_does_not_answer_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        problem = problem_of("127.0.0.1", silent.getsockname()[1], timeout_s=0.05)
    assert problem == "no response to ApiVersionsRequest within 0.05 s"


def test_one_that_is_not_there_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    problem = problem_of(*address)
    assert problem is not None
    assert problem.startswith("cannot connect to 127.0.0.1:")
