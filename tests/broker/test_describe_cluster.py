"""DescribeCluster for admin clients; errors as a live Kafka 4.4 answers them."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from kshim_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import CLUSTER_ID, a_node

NOT_ASKED = -2147483648


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_node(version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    reply = a_node(host="broker.example", port=1234).client().ask(request, version)
    assert (reply.error_code, reply.error_message) == (ErrorCode.NONE, None)
    assert (reply.cluster_id, reply.controller_id) == (CLUSTER_ID, 1)
    assert reply.brokers == (DescribeClusterBroker(broker_id=1, host="broker.example", port=1234),)
    assert reply.cluster_authorized_operations == NOT_ASKED


def test_brokers_say_their_rack() -> None:
    client = a_node({"broker.rack": "r-1"}).client()
    (described,) = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=False)).brokers
    (listed,) = client.ask(MetadataRequest(topics=())).brokers
    assert (described.rack, listed.rack) == ("r-1", "r-1")


def test_operations_are_told_when_asked_for() -> None:
    reply = a_node().client().ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert reply.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_this_listener_speaks_for_brokers_only(endpoint_type: int, error: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=endpoint_type)
    reply = a_node().client().ask(request, 1)
    assert reply.error_code == error
    assert reply.error_message
    assert (reply.cluster_id, reply.controller_id, reply.brokers) == ("", -1, ())
