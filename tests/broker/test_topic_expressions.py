"""Expressions of groups are matched aside, over the topics that exist, and only what the client may know of counts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kshim.broker.regular_expressions import WITHOUT_PACKAGE, require_topic_expression
from kshim.broker.topic_expressions import Found, TopicExpressions, matching
from kshim.coordinator.step import Lookup, Now
from kshim.scheduling.background_tasks import BackgroundTasks, run_task
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.broker.harness import NodeUnderTest, a_node

TOPICS = ("orders", "orders-eu", "audit", "__consumer_offsets")


def wish(*expressions: str) -> Lookup:
    return Lookup("g", frozenset(expressions), version=1, now=Now(0, 0))


class Asked:
    """A matcher with its tasks, and what it reports."""

    def __init__(self, topics: tuple[str, ...] = TOPICS) -> None:
        self.topics = list(topics)
        self.tasks = BackgroundTasks()
        self.found: list[tuple[Lookup, Found]] = []
        self.defects: list[BaseException] = []
        self.expressions = TopicExpressions(
            self.tasks,
            lambda: self.topics,
            lambda lookup, found: self.found.append((lookup, found)),
            lambda error, _: self.defects.append(error),
        )

    def look_up(self, lookup: Lookup) -> Found:
        self.expressions.look_up(lookup)
        task = self.tasks.next_urgent()
        assert task is not None
        run_task(task)
        ((answered, found),) = self.found
        assert answered is lookup
        return found


def test_the_whole_name_matches() -> None:
    assert Asked().look_up(wish("orders", "order", "orders.*")) == {
        "orders": {"orders"},
        "order": frozenset(),
        "orders.*": {"orders", "orders-eu"},
    }


def test_internal_topics_count_as_in_kafka() -> None:
    assert Asked().look_up(wish("__.*|audit")) == {"__.*|audit": {"__consumer_offsets", "audit"}}


def test_matching_is_a_job_for_a_thread() -> None:
    asked = Asked()
    asked.expressions.look_up(wish("a.*"))
    task = asked.tasks.next_urgent()
    assert task is not None
    job = next(task)
    assert job is not None
    assert asked.found == []
    assert job() == {"a.*": {"audit"}}


def test_topics_that_are_made_meanwhile_come_with_the_next_look_up() -> None:
    asked = Asked()
    asked.expressions.look_up(wish("a.*"))
    task = asked.tasks.next_urgent()
    assert task is not None
    job = next(task)
    assert job is not None
    asked.topics.append("another")
    with pytest.raises(StopIteration):
        task.send(job())
    assert asked.found[0][1] == {"a.*": {"audit"}}


def test_only_topics_that_the_client_may_describe_count() -> None:
    lookup = wish(".*", "a.*")._replace(may_describe=lambda name: name != "audit")
    assert Asked((*(f"t{number}" for number in range(250)), "audit")).look_up(lookup) == {
        ".*": {f"t{number}" for number in range(250)},
        "a.*": frozenset(),
    }


def test_a_defect_is_reported_and_the_group_does_not_wait_for_ever() -> None:
    def fails(name: str) -> bool:
        raise ValueError(name)

    asked = Asked()
    assert asked.look_up(wish("a.*")._replace(may_describe=fails)) == {}
    assert [type(defect) for defect in asked.defects] == [ValueError]


def test_what_is_no_expression_by_now_is_left_out() -> None:
    assert matching(["(", "a.*"], TOPICS) == {"a.*": {"audit"}}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("(a", "missing closing )"),
        ("a**", "invalid nested repetition operator"),
        ("[", "missing closing ]"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<x", "invalid named capture"),
        (r"\8", "invalid escape sequence"),
        ("a{1001}", "invalid repeat count"),
        ("x{2,1}", "invalid repeat count"),
        ("[z-a]", "invalid character class range"),
        (r"\pX", "invalid character class range"),
        ("*", "missing argument to repetition operator"),
        ("\\", "trailing backslash at end of expression"),
        ("[[:foo:]]", "invalid character class range"),
        ("a)", "regexp/syntax: internal error"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_sentence_of_a_live_kafka(expression: str, words: str) -> None:
    with pytest.raises(KafkaError) as raised:
        require_topic_expression(expression)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raised.value.message == f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {words}."


@pytest.mark.parametrize("expression", ["(?<n>a)", "a{,2}", r"\Qab", "t[0-9]+", "(?i)T.*"])
def test_what_a_live_kafka_takes_is_taken(expression: str) -> None:
    require_topic_expression(expression)


def heartbeat(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), **fields}
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, **fields)


def assigned(node: NodeUnderTest, response: ConsumerGroupHeartbeatResponse) -> set[str | None] | None:
    """Names of the topics that the member may use; None: as before."""
    assert response.error_code == ErrorCode.NONE, response
    if response.assignment is None:
        return None
    return {node.cluster.topics.topic_name(topic.topic_id) for topic in response.assignment.topic_partitions}


def test_a_member_gets_the_topics_of_its_expression_and_those_that_come_later() -> None:
    node = a_node(topics={"orders": 2, "audit": 1})
    client = node.client()
    assert assigned(node, client.ask(heartbeat(0, subscribed_topic_regex="o.*"))) == set()
    node.run_background_tasks()
    assert assigned(node, client.ask(heartbeat(1))) == {"orders"}
    node.topic("others")
    node.pass_ms(11_000)
    assert assigned(node, client.ask(heartbeat(2))) is None
    node.run_background_tasks()
    assert assigned(node, client.ask(heartbeat(2))) == {"orders", "others"}


def test_a_member_with_what_is_no_expression_does_not_join() -> None:
    response = a_node().client().ask(heartbeat(0, subscribed_topic_regex="("))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."


def test_without_the_package_the_answer_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['re2'] = None\n"
        "from kshim.broker.regular_expressions import require_topic_expression\n"
        "from kshim_protocol.errors import KafkaError\n"
        "require_topic_expression('plain-text')\n"
        "try:\n"
        "    require_topic_expression('my.*')\n"
        "except KafkaError as error:\n"
        "    print(error.code.name, error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [f"INVALID_REGULAR_EXPRESSION {WITHOUT_PACKAGE}"]
