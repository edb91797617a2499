"""Regular expressions of clients mean what they mean on a live Kafka 4.4, and never keep the broker busy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from kshim.broker.regular_expressions import matcher
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.harness import Client, a_node
from tests.broker.transactional import TransactionalProducer

IDS = ("a-1", "b.1", "a-12")


@pytest.fixture
def client() -> Client:
    client = a_node().client()
    for transactional_id in IDS:
        TransactionalProducer(client, transactional_id)
    return client


def listed(client: Client, pattern: str | None) -> tuple[ErrorCode, list[str]]:
    request = ListTransactionsRequest(state_filters=(), producer_id_filters=(), transactional_id_pattern=pattern)
    reply = client.ask(request, 2)
    return ErrorCode(reply.error_code), sorted(each.transactional_id for each in reply.transaction_states)


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        (None, ["a-1", "a-12", "b.1"]),
        ("", ["a-1", "a-12", "b.1"]),
        ("a-1", ["a-1"]),
        ("A-1", []),
        ("(?i)A-1", ["a-1"]),
        (".1", []),
        (".*1", ["a-1", "b.1"]),
        ("^a-.*1$", ["a-1"]),
        ("a-1|b.1", ["a-1", "b.1"]),
        ("(?<n>a-)12?", ["a-1", "a-12"]),
        (r"\Qa-\E1", ["a-1"]),
        (r"\d", []),
    ],
)
def test_the_whole_transactional_id_matches(client: Client, pattern: str | None, ids: list[str]) -> None:
    assert listed(client, pattern) == (ErrorCode.NONE, ids)


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{1001}", "(?=a)", r"(a)\1"])
def test_what_is_no_expression_of_re2_is_refused(client: Client, pattern: str) -> None:
    assert listed(client, pattern) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_repetitions_have_a_limit_also_when_they_are_nested(client: Client) -> None:
    assert listed(client, "((a{100}){100}){100}") == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_an_expression_that_other_engines_never_finish_takes_no_time() -> None:
    matches = matcher("(a*)*(a|aa)+b?" * 20)
    started_s = time.process_time()
    assert not matches("a" * 30_000 + "c")
    assert time.process_time() - started_s < 5


def test_without_the_package_plain_text_matches_itself() -> None:
    code = (
        "import sys\n"
        "sys.modules['re2'] = None\n"
        "from kshim.broker.regular_expressions import matcher\n"
        "from kshim_protocol.errors import KafkaError\n"
        "matches = matcher('my-id_1')\n"
        "print(matches('my-id_1'), matches('my-id_12'))\n"
        "try:\n"
        "    matcher('my.*')\n"
        "except KafkaError as error:\n"
        "    print(error.code.name, error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "True False",
        "UNSUPPORTED_VERSION regular expressions need the package google-re2: pip install kshim[regex]",
    ]


def test_text_that_is_no_unicode_is_no_expression() -> None:
    with pytest.raises(KafkaError) as raised:
        matcher("\ud800")
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
