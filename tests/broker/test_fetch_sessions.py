"""Fetch sessions: what is fetched again and again is named once (KIP-227). Outcomes as seen on Kafka 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.broker import fetch_sessions
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.fetch import FetchResponse, ForgottenTopic
from tests.broker.data_plane import a_batch, fetch_of, produce, values_in
from tests.broker.harness import Client, NodeUnderTest
from tests.conftest import MakeNode

NO_SESSION = 0
NEVER_BEGUN = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())


class Consumer:
    """Fetches in sessions, as clients do."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.client = node.client()
        self.session_id = 0
        self.epoch = 0

    def request(self, *places: tuple[str | bytes, int, int], **options: Any) -> Any:
        return fetch_of(*places, session_id=self.session_id, session_epoch=self.epoch, **options)

    def took(self, reply: FetchResponse) -> dict[tuple[str, int], tuple[int, list[bytes | None]]]:
        assert reply.error_code == ErrorCode.NONE
        self.session_id = reply.session_id
        self.epoch += 1
        return {
            (topic.topic, part.partition_index): (part.error_code, values_in(part.records))
            for topic in reply.responses
            for part in topic.partitions
        }

    def fetch(
        self, *places: tuple[str, int, int], **options: Any
    ) -> dict[tuple[str, int], tuple[int, list[bytes | None]]]:
        """(error, values) of each partition in the answer."""
        return self.took(self.client.ask(self.request(*places, **options), 12))


@pytest.fixture
def consumer(node: NodeUnderTest) -> Consumer:
    """One whose session has orders-0, orders-1 and clicks-0, all empty."""
    consumer = Consumer(node)
    answer = consumer.fetch(("orders", 0, 0), ("orders", 1, 0), ("clicks", 0, 0))
    assert list(answer) == [("orders", 0), ("orders", 1), ("clicks", 0)]
    assert consumer.session_id != NO_SESSION
    return consumer


def write(node: NodeUnderTest, topic: str, value: bytes) -> None:
    produce(node.client(), topic, a_batch(value))


def test_only_what_is_new_is_answered(node: NodeUnderTest, consumer: Consumer) -> None:
    assert consumer.fetch() == {}
    write(node, "clicks", b"a")
    assert consumer.fetch() == {("clicks", 0): (0, [b"a"])}
    assert consumer.fetch(("clicks", 0, 1)) == {}
    write(node, "orders", b"b")
    assert consumer.fetch() == {("orders", 0): (0, [b"b"])}


def test_records_that_were_not_taken_are_sent_again(node: NodeUnderTest, consumer: Consumer) -> None:
    write(node, "orders", b"a")
    assert consumer.fetch() == {("orders", 0): (0, [b"a"])}
    assert consumer.fetch() == {("orders", 0): (0, [b"a"])}


def test_partitions_come_and_go(node: NodeUnderTest, consumer: Consumer) -> None:
    write(node, "orders", b"a")
    forgotten = (ForgottenTopic(topic="orders", partitions=(0,)),)
    assert consumer.fetch(("clicks", 1, 0), forgotten_topics_data=forgotten) == {("clicks", 1): (0, [])}
    assert consumer.fetch() == {}
    assert consumer.fetch(("orders", 0, 0)) == {("orders", 0): (0, [b"a"])}


def test_a_start_that_has_moved_is_news(node: NodeUnderTest, consumer: Consumer) -> None:
    write(node, "orders", b"a")
    assert consumer.fetch(("orders", 0, 1)) == {("orders", 0): (0, [])}
    partition = node.cluster.topics.partition("orders", 0)
    assert partition is not None
    partition.delete_before(1)
    assert consumer.fetch() == {("orders", 0): (0, [])}
    assert consumer.fetch() == {}


def test_errors_are_repeated_until_they_are_over(consumer: Consumer) -> None:
    wrong: dict[tuple[str, int], tuple[int, list[bytes | None]]] = {("orders", 0): (ErrorCode.OFFSET_OUT_OF_RANGE, [])}
    assert consumer.fetch(("orders", 0, 9)) == wrong
    assert consumer.fetch() == wrong
    assert consumer.fetch(("orders", 0, 0)) == {("orders", 0): (0, [])}
    assert consumer.fetch() == {}


def test_who_had_records_is_served_last_the_next_time(node: NodeUnderTest, consumer: Consumer) -> None:
    for topic in ("orders", "clicks"):
        write(node, topic, b"a" * 200)
    limits = {"max_bytes": 100}
    assert list(consumer.fetch(**limits)) == [("orders", 0), ("clicks", 0)]
    write(node, "orders", b"b" * 200)
    answer = consumer.fetch(("orders", 0, 1), **limits)
    assert [key for key, (_, values) in answer.items() if values] == [("clicks", 0)]


def test_a_waiting_fetch_of_a_session_is_woken(node: NodeUnderTest, consumer: Consumer) -> None:
    consumer.client.send(consumer.request(max_wait_ms=60_000), 12)
    assert consumer.client.is_waiting
    write(node, "orders", b"a")
    assert consumer.took(consumer.client.take(FetchResponse)) == {("orders", 0): (0, [b"a"])}


def test_a_session_is_left_by_a_full_fetch(consumer: Consumer) -> None:
    old_id = consumer.session_id
    reply = consumer.client.ask(fetch_of(("orders", 0, 0), session_id=old_id, session_epoch=-1), 12)
    assert (reply.error_code, reply.session_id, len(reply.responses)) == (ErrorCode.NONE, NO_SESSION, 1)
    assert consumer.client.ask(consumer.request(), 12) == NEVER_BEGUN


def test_a_full_fetch_with_the_first_epoch_begins_another_session(consumer: Consumer) -> None:
    reply = consumer.client.ask(fetch_of(("orders", 0, 0), session_id=consumer.session_id, session_epoch=0), 12)
    assert reply.session_id not in (NO_SESSION, consumer.session_id)
    assert consumer.client.ask(consumer.request(), 12) == NEVER_BEGUN


@pytest.mark.parametrize("step", [-1, 1])
def test_an_epoch_out_of_turn_is_refused(consumer: Consumer, step: int) -> None:
    consumer.fetch()
    consumer.epoch += step
    reply = consumer.client.ask(consumer.request(), 12)
    assert reply == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=())


def test_names_and_ids_do_not_mix(consumer: Consumer) -> None:
    reply = consumer.client.ask(consumer.request(), 13)
    assert reply == FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, responses=())


def test_a_session_by_topic_id_works_alike(node: NodeUnderTest) -> None:
    topic_id = node.cluster.topics.topic_id("orders")
    assert topic_id is not None
    consumer = Consumer(node)
    consumer.took(consumer.client.ask(consumer.request((topic_id, 0, 0)), 18))
    write(node, "orders", b"a")
    reply = consumer.client.ask(consumer.request(), 18)
    (topic,) = reply.responses
    assert (topic.topic_id, values_in(topic.partitions[0].records)) == (topic_id, [b"a"])


def test_a_session_by_topic_id_tells_a_deleted_topic_from_one_that_was_made_again(node: NodeUnderTest) -> None:
    orders = node.cluster.topics.named("orders")
    assert orders is not None
    consumer = Consumer(node)
    consumer.took(consumer.client.ask(consumer.request((orders.topic_id, 0, 0)), 13))

    def error() -> int:
        ((_, (error_code, _)),) = consumer.took(consumer.client.ask(consumer.request(), 13)).items()
        return error_code

    node.cluster.delete_topic(orders, node.now)
    assert error() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.cluster.create_topic("orders", 1)
    assert error() == ErrorCode.INCONSISTENT_TOPIC_ID


def test_what_does_not_exist_is_answered_after_everything_else(node: NodeUnderTest) -> None:
    answer = Consumer(node).fetch(("nothing", 0, 0), ("orders", 9, 0), ("orders", 0, 0), ("clicks", 0, 0))
    assert list(answer) == [("orders", 0), ("clicks", 0), ("nothing", 0), ("orders", 9)]


def test_a_session_without_partitions_ends(consumer: Consumer) -> None:
    forgotten = (
        ForgottenTopic(topic="orders", partitions=(0, 1)),
        ForgottenTopic(topic="clicks", partitions=(0,)),
    )
    reply = consumer.client.ask(consumer.request(forgotten_topics_data=forgotten), 12)
    assert (reply.error_code, reply.session_id, reply.responses) == (ErrorCode.NONE, NO_SESSION, ())
    consumer.epoch += 1
    assert consumer.client.ask(consumer.request(), 12) == NEVER_BEGUN


def test_when_all_places_are_taken_only_an_idle_session_gives_way(make_node: MakeNode) -> None:
    node = make_node({"max.incremental.fetch.session.cache.slots": "2"}, topics={"orders": 1})
    first, second, third, fourth = (Consumer(node) for _ in range(4))
    first.fetch(("orders", 0, 0))
    second.fetch(("orders", 0, 0))
    node.pass_ms(fetch_sessions.IDLE_MS)
    third.fetch(("orders", 0, 0))
    assert third.session_id == NO_SESSION
    first.fetch()
    node.pass_ms(1)
    fourth.fetch(("orders", 0, 0))
    assert fourth.session_id != NO_SESSION
    assert first.fetch() == {}
    assert second.client.ask(second.request(), 12) == NEVER_BEGUN


@pytest.mark.parametrize(("slots", "limit", "version"), [("0", 10, 12), ("9", 0, 12), ("9", 10, 6)])
def test_there_may_be_no_session(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, slots: str, limit: int, version: int
) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", limit)
    node = make_node({"max.incremental.fetch.session.cache.slots": slots}, topics={"orders": 1})
    reply = node.client().ask(fetch_of(("orders", 0, 0)), version)
    assert (reply.error_code, reply.session_id, len(reply.responses)) == (ErrorCode.NONE, NO_SESSION, 1)


def test_a_session_that_grows_too_large_ends(
    consumer: Consumer, node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 3)
    write(node, "clicks", b"a")
    assert consumer.fetch(("clicks", 1, 0)) == {("clicks", 0): (0, [b"a"]), ("clicks", 1): (0, [])}
    assert consumer.session_id == NO_SESSION


def test_all_sessions_together_are_bounded(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_ALL_PARTITIONS", 3)
    node = make_node(topics={"orders": 2})
    places = [("orders", 0, 0), ("orders", 1, 0)]
    first, second = Consumer(node), Consumer(node)
    first.fetch(*places)
    second.fetch(*places)
    assert (first.session_id != NO_SESSION, second.session_id) == (True, NO_SESSION)
    first.client.ask(fetch_of(*places, session_id=first.session_id, session_epoch=-1), 12)
    second.epoch = 0
    second.fetch(*places)
    assert second.session_id != NO_SESSION


def test_a_name_that_no_topic_can_have_is_not_kept(node: NodeUnderTest) -> None:
    reply = node.client().ask(fetch_of(("x" * 250, 0, 0), session_epoch=0), 12)
    assert reply.session_id == NO_SESSION


@pytest.mark.parametrize("version", [7, 12, 13, 18])
@pytest.mark.parametrize(("session_id", "epoch"), [(5, 7), (0, 5), (0, -2)])
def test_there_is_no_session_to_continue(client: Client, version: int, session_id: int, epoch: int) -> None:
    assert client.ask(fetch_of(session_id=session_id, session_epoch=epoch), version) == NEVER_BEGUN


@pytest.fixture
def client(node: NodeUnderTest) -> Client:
    return node.client()
