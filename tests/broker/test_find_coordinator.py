"""FindCoordinator names this node. Errors and texts on success are those of a live Kafka 4.4."""

from __future__ import annotations

import pytest

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tests.broker.full_disk import FullDisk
from tests.broker.harness import a_node

GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_KEY = "group:AAAAAAAAAAAAAAAAAAAAAA:0"


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_one_key_is_asked_for(version: int) -> None:
    reply = a_node(host="broker.example", port=1234).client().ask(FindCoordinatorRequest(key="g"), version)
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (0, 1, "broker.example", 1234)
    assert reply.error_message == ("NONE" if version >= 1 else "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_from_version_4_every_key_has_its_own_answer_in_order(version: int) -> None:
    request = FindCoordinatorRequest(coordinator_keys=("b", "", "a", "b"))
    reply = a_node(host="broker.example", port=1234).client().ask(request, version)
    assert reply.coordinators == tuple(
        Coordinator(key=key, node_id=1, host="broker.example", port=1234, error_code=0, error_message="")
        for key in ("b", "", "a", "b")
    )


def test_a_batch_of_no_keys_has_no_answers() -> None:
    assert a_node().client().ask(FindCoordinatorRequest(coordinator_keys=()), 6).coordinators == ()


def test_the_offsets_topic_is_there_before_the_answer() -> None:
    """Kafka refuses the first request with COORDINATOR_NOT_AVAILABLE while it makes the topic."""
    node = a_node({"offsets.topic.num.partitions": "7"})
    assert OFFSETS_TOPIC not in node.cluster.topics
    reply = node.client().ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6)
    assert reply.coordinators[0].error_code == ErrorCode.NONE
    assert node.cluster.topics.partition_count(OFFSETS_TOPIC) == 7


@pytest.mark.parametrize("key_type", [TRANSACTION, SHARE])
def test_other_keys_make_no_offsets_topic(key_type: int) -> None:
    node = a_node()
    node.client().ask(FindCoordinatorRequest(coordinator_keys=(SHARE_KEY,), key_type=key_type), 6)
    assert OFFSETS_TOPIC not in node.cluster.topics


@pytest.mark.parametrize("key", ["payments", ""])
def test_a_transactional_id_is_looked_after_by_this_node(key: str) -> None:
    client = a_node().client()
    reply = client.ask(FindCoordinatorRequest(coordinator_keys=(key,), key_type=TRANSACTION), 4)
    assert (reply.coordinators[0].error_code, reply.coordinators[0].node_id) == (ErrorCode.NONE, 1)
    assert client.ask(FindCoordinatorRequest(key=key, key_type=TRANSACTION), 1).node_id == 1


@pytest.mark.parametrize("key_type", [-1, 3, 9])
def test_an_unknown_key_type_is_an_invalid_request(key_type: int) -> None:
    client = a_node().client()
    one = client.ask(FindCoordinatorRequest(key="g", key_type=key_type), 1)
    assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    assert one.error_message
    many = client.ask(FindCoordinatorRequest(coordinator_keys=("g", "h"), key_type=key_type), 4)
    assert [(answer.key, answer.error_code, answer.node_id) for answer in many.coordinators] == [
        ("g", ErrorCode.INVALID_REQUEST, -1),
        ("h", ErrorCode.INVALID_REQUEST, -1),
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_share_keys_are_known_from_version_6(version: int) -> None:
    client = a_node().client()
    request = FindCoordinatorRequest(coordinator_keys=(SHARE_KEY,), key_type=SHARE)
    assert client.ask(request, version).coordinators[0].error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(request, 6).coordinators[0].node_id == 1


@pytest.mark.parametrize("key", ["g", "", "g:short:0", ":AAAAAAAAAAAAAAAAAAAAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAA:x"])
def test_a_malformed_share_key_is_refused_alone(key: str) -> None:
    request = FindCoordinatorRequest(coordinator_keys=(key, SHARE_KEY), key_type=SHARE)
    refused, found = a_node().client().ask(request, 6).coordinators
    assert (refused.key, refused.error_code, refused.node_id) == (key, ErrorCode.INVALID_REQUEST, -1)
    assert found.error_code == ErrorCode.NONE


def test_without_an_offsets_topic_the_coordinator_is_not_available() -> None:
    node = a_node(storage=FullDisk(), tolerates_defects=True)
    reply = node.client().ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6)
    assert reply.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [str(defect) for defect in node.defects] == ["no space left"]
