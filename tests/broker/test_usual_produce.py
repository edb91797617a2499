"""A Produce of the usual shape takes a short way: the same answers and the same logs, byte for byte, as by its handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.request import PRODUCE
from kshim.storage.log import LogError
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.compression import Compression
from kshim_protocol.records.record import Record
from tests.broker.data_plane import a_batch, produce_of
from tests.broker.harness import START_WALL_MS, a_node
from tests.broker.pair import Pair, frame_of

VERSIONS = range(9, 14)
TOPICS = {"orders": 2, "stamped": 1, "compacted": 1, "packed": 1, "small": 1}
CONFIGS = {
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "packed": {"compression.type": "gzip"},
    "small": {"max.message.bytes": "120"},
}


def a_pair() -> Pair:
    return Pair(TOPICS, CONFIGS)


def topic_id(pair: Pair, name: str) -> bytes:
    found = pair.nodes[0].cluster.topics.topic_id(name)
    assert found is not None
    return found


@st.composite
def record_batches(draw: st.DrawFn) -> bytes:
    count = draw(st.sampled_from([1, 1, 2, 5, 30]))
    key = draw(st.sampled_from([None, b"", b"key"]))
    value = draw(st.sampled_from([None, b"", b"x" * 20, b"y" * 100, b"z" * 700]))
    step_ms = draw(st.sampled_from([0, 0, 1, -5, 10**13]))
    records = [Record(key, value, timestamp_ms=START_WALL_MS + step_ms * number) for number in range(count)]
    producer_id = draw(st.sampled_from([-1, -1, 5, 6]))
    batch = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else draw(st.integers(0, 1)),
        base_sequence=-1 if producer_id < 0 else draw(st.integers(0, 3)),
        compression=draw(st.sampled_from([Compression.NONE] * 5 + [Compression.GZIP])),
        is_transactional=draw(st.sampled_from([False] * 7 + [True])),
        log_append_time_ms=draw(st.sampled_from([None] * 5 + [START_WALL_MS])),
    )
    if draw(st.booleans()) and draw(st.booleans()):
        changed = bytearray(batch)
        changed[draw(st.integers(0, len(batch) - 1))] ^= draw(st.sampled_from([1, 0x80, 0xFF]))
        batch = bytes(changed)
    return batch


@st.composite
def frames(draw: st.DrawFn, topic_id: Callable[[str], bytes]) -> bytes:
    version = draw(st.sampled_from(VERSIONS))
    name = draw(st.sampled_from([*TOPICS, "orders", "orders", "nothing"]))
    where = name if version < 13 else (bytes(15) + b"\x7f" if name == "nothing" else topic_id(name))
    batches = draw(st.lists(st.none() | record_batches(), min_size=1, max_size=2)) if draw(st.booleans()) else None
    request = produce_of(
        where,
        *(batches or [draw(record_batches())]),
        acks=draw(st.sampled_from([-1, -1, 1, 0, 5])),
        first_partition=draw(st.sampled_from([0, 0, 0, 1, -1, 7])),
    )
    frame = frame_of(request, version, draw(st.sampled_from(["tester", "", "é" * 40, None])))
    if draw(st.integers(0, 3)) == 0:
        changed = bytearray(frame)
        at = draw(st.integers(4, min(len(frame) - 1, 90)) | st.integers(len(frame) - 3, len(frame) - 1))
        changed[at] = draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]) | st.integers(0, 255))
        frame = bytes(changed)
    return frame + draw(st.sampled_from([b"", b"", b"", b"\0"]))


@given(st.data())
def test_any_requests_are_answered_and_stored_as_by_the_handler(data: st.DataObject) -> None:
    pair = a_pair()
    for frame in data.draw(st.lists(frames(partial(topic_id, pair)), min_size=1, max_size=8)):
        pair.send(frame)
    pair.assert_same_logs()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value_bytes", [0, 1, 50, 100, 20_000, 3_000_000])
def test_every_length_is_read_as_by_the_handler(version: int, value_bytes: int) -> None:
    pair = a_pair()
    where = topic_id(pair, "orders") if version >= 13 else "orders"
    frame = frame_of(produce_of(where, a_batch(b"v" * value_bytes)), version)
    for _ in range(2):
        (answer,) = pair.send(frame)
        assert answer is not None
    pair.assert_same_logs()
    assert pair.takes_short_way(frame) == (value_bytes < 1_000_000)  # larger ones are refused


@pytest.mark.parametrize("version", VERSIONS)
def test_a_large_batch_is_not_read_as_the_end_of_a_client_id_that_is_not_there(version: int) -> None:
    pair = a_pair()
    where = topic_id(pair, "orders") if version >= 13 else "orders"
    frame = frame_of(produce_of(where, a_batch(bytes(70_000))), version, client_id=None)
    assert not pair.takes_short_way(frame)
    pair.send(frame)
    pair.assert_same_logs()


def test_any_topic_id_will_do() -> None:
    pair = a_pair()
    for node in pair.nodes:
        node.topic_numbers = count(0xFF << 40)
        node.topic("random", 1)
    assert topic_id(pair, "random")[0] > 127
    assert pair.takes_short_way(frame_of(produce_of(topic_id(pair, "random"), a_batch(b"1")), 13))


def test_a_place_is_looked_up_again_once_topics_have_changed() -> None:
    pair = a_pair()
    frame = frame_of(produce_of("orders", a_batch(b"1")), 9)
    pair.send(frame)
    assert pair.takes_short_way(frame)
    pair.nodes[1].node.route(frame, pair.clients()[1], pair.nodes[1].now, 0)
    for node in pair.nodes:
        topic = node.cluster.topics.named("orders")
        assert topic is not None
        node.cluster.topics.delete_all([topic])
    pair.send(frame)
    for node in pair.nodes:
        node.topic("orders", 2)
    pair.send(frame)
    assert [node.log("orders").end_offset for node in pair.nodes] == [1, 1]
    for node in pair.nodes:
        topic = node.cluster.topics.named("orders")
        assert topic is not None
        topic.configs = {"max.message.bytes": "10"}
    pair.send(frame)
    assert [node.log("orders").end_offset for node in pair.nodes] == [1, 1]


@pytest.mark.parametrize("error", [LogError("the disk is full"), ValueError("a defect")])
def test_what_cannot_be_appended_is_answered_and_reported_as_by_the_handler(error: Exception) -> None:
    pair = a_pair()
    frame = frame_of(produce_of("orders", a_batch(b"1")), 9)
    pair.send(frame)

    def fail(batch: bytes) -> int:
        raise error

    for node in pair.nodes:
        node.log("orders").append = fail  # type: ignore[method-assign]
    pair.send(frame)
    assert [len(node.defects) for node in pair.nodes] == [1, 1]


def test_who_hears_of_requests_hears_of_these_too() -> None:
    node = a_node(topics={"orders": 1})
    assert node.node.resolve(PRODUCE, 9).usual is not None  # type: ignore[union-attr]
    node.node.intercept(lambda api, handler: handler)
    assert node.node.resolve(PRODUCE, 9).usual is None  # type: ignore[union-attr]
    node.node.intercept(None)
    assert node.node.resolve(PRODUCE, 9).usual is not None  # type: ignore[union-attr]
    assert node.node.resolve(PRODUCE, 8).usual is None  # type: ignore[union-attr]
