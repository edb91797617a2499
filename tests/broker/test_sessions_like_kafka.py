"""Fetch sessions beside a real Kafka 4.4: the same partitions in each answer, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from integration.support.kafka import RealKafka
from kshim.tools.client import Client as WireClient
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kshim_protocol.messages.fetch import FetchResponse, ForgottenTopic
from kshim_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kshim_protocol.records.batch import iter_batches
from tests.broker.beside_kafka import Side
from tests.broker.data_plane import a_batch, fetch_of
from tests.broker.harness import Client, a_node
from tests.broker.test_transactions_like_kafka import Both

pytestmark = pytest.mark.kafka


@pytest.fixture
def both(real_kafka: RealKafka) -> Iterator[Both]:
    host, _, port = real_kafka.bootstrap.rpartition(":")
    kafka = WireClient(host, int(port), client_id="like-kafka", timeout_s=30)
    yield Both(kafka, a_node())
    kafka.close()


class Sessions:
    """A session on each side, under the id that side gave it."""

    def __init__(self, both: Both, version: int) -> None:
        self.both = both
        self.version = version
        self.ids: dict[Side, int] = {both.kafka: 0, both.node: 0}
        self.epoch = 0

    def fetch(self, *places: tuple[str, int, int], **options: Any) -> Any:
        answers = []
        for side, session_id in self.ids.items():
            request = fetch_of(*places, session_id=session_id, session_epoch=self.epoch, **options)
            answer = side.ask(request, self.version)
            if not answer.error_code:
                self.ids[side] = answer.session_id
            answers.append(plain(answer))
        assert answers[0] == answers[1], (places, options)
        self.epoch = 0 if not answers[0][1] else self.epoch + 1
        return answers[0]


def plain(answer: FetchResponse) -> Any:
    parts = [
        (
            topic.topic,
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.log_start_offset,
            b"".join(iter_batches(part.records or b"")),
        )
        for topic in answer.responses
        for part in topic.partitions
    ]
    return answer.error_code, answer.session_id != 0, parts


@pytest.mark.parametrize("version", [7, 12])
def test_sessions_go_on_alike(both: Both, version: int) -> None:
    topics = [both.create(), both.create()]
    chance = random.Random(version)
    sessions = Sessions(both, version)
    places = [(topic, index) for topic in topics for index in (0, 1)]
    ends = dict.fromkeys(places, 0)
    for _ in range(80):
        place = chance.choice(places)
        match chance.choice(["write"] * 3 + ["take"] * 6 + ["look", "forget", "wrong", "delete", "epoch", "anew"]):
            case "write" if place[1] == 0:
                both.write(place[0], a_batch(b"v", timestamp_ms=1000), transactional_id=None)
                ends[place] += 1
            case "take":
                sessions.fetch((*place, chance.randint(0, ends[place])))
            case "look":
                sessions.fetch()
            case "forget":
                topic = ForgottenTopic(topic=place[0], partitions=(place[1],))
                sessions.fetch(forgotten_topics_data=(topic,))
            case "wrong":
                sessions.fetch((*place, 999))
            case "delete":
                partition = DeleteRecordsPartition(partition_index=place[1], offset=ends[place])
                request = DeleteRecordsRequest(
                    topics=(DeleteRecordsTopic(name=place[0], partitions=(partition,)),), timeout_ms=1000
                )
                both.ask(request, 2)
            case "epoch" if sessions.epoch:
                old = sessions.epoch
                sessions.epoch = old + chance.choice([-1, 1, 5]) or 7
                sessions.fetch()
                sessions.epoch = old
            case "anew":
                sessions.epoch = 0
                sessions.fetch(*((*each, 0) for each in places))
            case _:
                pass


@pytest.mark.parametrize("version", [12, 13, 18])
def test_topics_that_are_deleted_and_made_again_are_answered_alike(both: Both, version: int) -> None:
    gone, kept = both.create(), both.create()
    ids = {name: topic_ids(both, name) for name in (gone, kept)}
    by_id = version >= 13
    session_ids = {both.kafka: 0, both.node: 0}
    epochs = iter(range(1_000))

    def fetch(*places: tuple[str, int, int]) -> Any:
        answers = []
        epoch = next(epochs)
        for side, session_id in session_ids.items():
            wanted = [(ids[name][side] if by_id else name, *place) for name, *place in places]
            request = fetch_of(*wanted, session_id=session_id, session_epoch=epoch)  # type: ignore[arg-type]
            answer = side.ask(request, version)
            session_ids[side] = answer.session_id
            names = {of_side[side]: name for name, of_side in ids.items()}
            answers.append(
                [
                    (names.get(topic.topic_id, "an older one") if by_id else topic.topic, *facts[1:])
                    for topic in answer.responses
                    for facts in plain(FetchResponse(responses=(topic,)))[2]
                ]
            )
        assert answers[0] == answers[1]
        return answers[0]

    fetch((gone, 0, 0), (gone, 1, 0), (kept, 0, 0))
    for name in (gone, kept):
        both.delete(name)
        assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in [error for _, _, error, *_ in fetch()]
        fetch()
        both.create(name)
        error = ErrorCode.INCONSISTENT_TOPIC_ID if by_id else ErrorCode.NONE
        assert error in [error for _, _, error, *_ in fetch()]
        ids[name] = topic_ids(both, name)
        both.write(name, a_batch(timestamp_ms=1000), transactional_id=None)
        fetch()
        fetch((name, 0, 0))
        fetch()
    both.write(kept, a_batch(timestamp_ms=1000), transactional_id=None)
    both.delete(gone)
    fetch()


@pytest.mark.parametrize("epoch", [-1, 0])
def test_what_does_not_exist_is_answered_last_alike(both: Both, epoch: int) -> None:
    topic = both.create()
    request = fetch_of((f"{topic}-not", 0, 0), (topic, 9, 0), (topic, 0, 0), (topic, 1, 0), session_epoch=epoch)
    answers = [plain(side.ask(request, 12))[2] for side in (both.kafka, both.node)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_deleted_while_a_fetch_waits_is_answered_in_its_place_alike(
    both: Both, real_kafka: RealKafka, version: int
) -> None:
    gone, kept = both.create(), both.create()
    ids = {name: topic_ids(both, name) for name in (gone, kept)}
    host, _, port = real_kafka.bootstrap.rpartition(":")
    at_kafka = WireClient(host, int(port), client_id="like-kafka", timeout_s=30)
    at_node = a_client_beside(both)
    for client, side in ((at_kafka, both.kafka), (at_node, both.node)):
        wanted = [(ids[name][side] if version >= 13 else name, 0, 0) for name in (gone, kept)]
        client.send(fetch_of(*wanted, max_wait_ms=10_000), version)
    both.delete(gone)
    answers = []
    for answer, side in ((at_kafka.receive(30), both.kafka), (at_node.take(FetchResponse), both.node)):
        names = {of_side[side]: name for name, of_side in ids.items()}
        answers.append(
            [(topic.topic or names[topic.topic_id], topic.partitions[0].error_code) for topic in answer.responses]
        )
    assert answers[0] == answers[1] == [(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (kept, ErrorCode.NONE)]
    at_kafka.close()


def a_client_beside(both: Both) -> Client:
    """Another connection to our node."""
    assert both.node.node is not None
    return both.node.node.client()


def topic_ids(both: Both, name: str) -> dict[Side, bytes]:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    return {side: side.ask(request, 12).topics[0].topic_id for side in (both.kafka, both.node)}
