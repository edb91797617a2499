"""Clients of each listener hear the addresses that are advertised for it, and of no other one."""

from __future__ import annotations

import pytest

from kshim_protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from tests.broker.harness import Client, a_node


def clients() -> tuple[Client, Client]:
    """One that came by the listener INTERNAL, one that came by EXTERNAL."""
    node = a_node()
    node.node.node.addresses.update(INTERNAL=("inner.example", 9092), EXTERNAL=("outer.example", 443))
    return node.client(listener_name="INTERNAL"), node.client(listener_name="EXTERNAL", security_protocol="SSL")


@pytest.mark.parametrize("version", [0, 13])
def test_metadata_names_the_address_of_the_listener_asked(version: int) -> None:
    inner, outer = (client.ask(MetadataRequest(topics=()), version).brokers for client in clients())
    assert inner == (MetadataResponseBroker(node_id=1, host="inner.example", port=9092),)
    assert outer == (MetadataResponseBroker(node_id=1, host="outer.example", port=443),)


def test_describe_cluster_names_the_address_of_the_listener_asked() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    inner, outer = (client.ask(request).brokers for client in clients())
    assert inner == (DescribeClusterBroker(broker_id=1, host="inner.example", port=9092),)
    assert outer == (DescribeClusterBroker(broker_id=1, host="outer.example", port=443),)


def test_find_coordinator_names_the_address_of_the_listener_asked() -> None:
    inner, outer = (client.ask(FindCoordinatorRequest(key="g"), 3) for client in clients())
    assert (inner.host, inner.port) == ("inner.example", 9092)
    assert (outer.host, outer.port) == ("outer.example", 443)
    inner, outer = (client.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6) for client in clients())
    assert [(key.host, key.port) for key in inner.coordinators] == [("inner.example", 9092)]
    assert [(key.host, key.port) for key in outer.coordinators] == [("outer.example", 443)]


def test_a_listener_without_an_address_of_its_own_has_that_of_the_node() -> None:
    node = a_node(host="broker.example", port=1234)
    assert node.node.node.address("PLAINTEXT") == ("broker.example", 1234)
