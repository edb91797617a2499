"""DeleteTopics by name and by id. Errors are those of a live Kafka 4.4 where not said otherwise."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kshim_protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from kshim_protocol.schema import ZERO_UUID
from tests.broker.data_plane import a_batch, produce
from tests.broker.full_disk import FullDisk
from tests.broker.harness import NodeUnderTest, a_node

NOWHERE = b"\x09" * 16


@pytest.fixture
def node() -> NodeUnderTest:
    return a_node(topics={"a": 1, "b": 1, "c": 1})


def delete(
    node: NodeUnderTest, *names: str | None, ids: tuple[bytes, ...] = (), version: int = 6
) -> list[DeletableTopicResult]:
    if version < 6:
        old = DeleteTopicsRequest(topic_names=tuple(map(str, names)), timeout_ms=1000)
        return list(node.client().ask(old, version).responses)
    topics = [DeleteTopicState(name=name) for name in names] + [DeleteTopicState(topic_id=id_) for id_ in ids]
    return list(node.client().ask(DeleteTopicsRequest(topics=tuple(topics), timeout_ms=1000), version).responses)


def errors_in(results: list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


def names_left(node: NodeUnderTest) -> list[str]:
    return [topic.name for topic in node.cluster.topics]


def id_of(node: NodeUnderTest, name: str) -> bytes:
    found = node.cluster.topics.topic_id(name)
    assert found is not None
    return found


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_in_every_version(node: NodeUnderTest, version: int) -> None:
    topic_id = id_of(node, "b") if version >= 6 else ZERO_UUID
    (result,) = delete(node, "b", version=version)
    assert (result.name, result.topic_id, result.error_code) == ("b", topic_id, ErrorCode.NONE)
    assert names_left(node) == ["a", "c"]


def test_a_topic_is_deleted_by_id_and_its_name_is_told(node: NodeUnderTest) -> None:
    assert errors_in(delete(node, ids=(id_of(node, "b"),))) == [("b", ErrorCode.NONE)]
    assert names_left(node) == ["a", "c"]


def test_unknown_topics_are_answered_by_name_or_id_as_requested(node: NodeUnderTest) -> None:
    by_name, by_id = delete(node, "nope", ids=(NOWHERE,))
    assert (by_name.name, by_name.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (by_id.name, by_id.topic_id, by_id.error_code) == (None, NOWHERE, ErrorCode.UNKNOWN_TOPIC_ID)
    assert by_name.error_message
    assert by_id.error_message


def test_the_error_text_is_told_from_version_5(node: NodeUnderTest) -> None:
    assert delete(node, "nope", version=4)[0].error_message is None
    assert delete(node, "nope", version=5)[0].error_message


def test_results_stand_in_the_order_of_the_request(node: NodeUnderTest) -> None:
    assert errors_in(delete(node, "c", "nope", "a", "a b")) == [
        ("c", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.NONE),
        ("a b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", [1, 6])
def test_a_name_given_twice_is_kept_and_refused_once(node: NodeUnderTest, version: int) -> None:
    assert errors_in(delete(node, "b", "b", "c", version=version)) == [("b", ErrorCode.INVALID_REQUEST), ("c", 0)]
    assert names_left(node) == ["a", "b"]


def test_an_unknown_id_given_twice_is_an_invalid_request(node: NodeUnderTest) -> None:
    assert errors_in(delete(node, ids=(NOWHERE, NOWHERE))) == [(None, ErrorCode.INVALID_REQUEST)]


def test_a_topic_given_by_name_and_by_id_is_kept(node: NodeUnderTest) -> None:
    """Kafka tells it once; here each way of asking has its answer."""
    results = delete(node, "b", ids=(id_of(node, "b"),))
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert names_left(node) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["b", None])
def test_one_entry_has_a_name_or_an_id_but_not_both_or_neither(node: NodeUnderTest, name: str | None) -> None:
    topic_id = id_of(node, "b") if name else ZERO_UUID
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name, topic_id=topic_id),), timeout_ms=1000)
    (result,) = node.client().ask(request).responses
    assert (result.name, result.topic_id, result.error_code) == (name, topic_id, ErrorCode.INVALID_REQUEST)
    assert names_left(node) == ["a", "b", "c"]


def test_an_empty_request_is_answered_with_nothing(node: NodeUnderTest) -> None:
    assert delete(node) == []


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED), (6, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_deleting_can_be_forbidden(version: int, error: ErrorCode) -> None:
    node = a_node({"delete.topic.enable": "false"}, topics={"a": 1})
    assert errors_in(delete(node, "a", "nope", version=version)) == [("a", error), ("nope", error)]
    assert names_left(node) == ["a"]


def test_the_topic_that_holds_the_groups_is_kept(node: NodeUnderTest) -> None:
    """Kafka deletes it."""
    node.cluster.groups.topic()
    assert errors_in(delete(node, "__consumer_offsets")) == [("__consumer_offsets", ErrorCode.INVALID_REQUEST)]
    assert "__consumer_offsets" in node.cluster.topics


def test_a_topic_made_again_under_the_same_name_is_empty_and_has_another_id(node: NodeUnderTest) -> None:
    client = node.client()
    old_id = id_of(node, "b")
    produce(client, "b", a_batch(b"v"))
    delete(node, "b")
    again = CreatableTopic(name="b", num_partitions=1, replication_factor=1, assignments=(), configs=())
    client.ask(CreateTopicsRequest(topics=(again,), timeout_ms=1000))
    assert id_of(node, "b") != old_id
    assert node.log("b").end_offset == 0


def test_a_topic_that_cannot_be_forgotten_stays() -> None:
    disk = FullDisk(is_full=False)
    node = a_node(topics={"a": 1}, storage=disk, tolerates_defects=True)
    topic_id = id_of(node, "a")
    disk.is_full = True
    assert errors_in(delete(node, "a")) == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert [str(defect) for defect in node.defects] == ["no space left"]
    assert (names_left(node), id_of(node, "a")) == (["a"], topic_id)
