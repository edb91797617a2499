"""Brokers over HTTP: stopped, started, killed, and who leads what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshim.tools.health import problem_of
from tests.control.service import Service, a_service


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("nodes"), "--brokers=2", "--topic=orders:4") as service:
        yield service


def problem(service: Service, node: int) -> str | None:
    host, _, port = service.bootstrap.split(",")[node - 1].rpartition(":")
    return problem_of(host, int(port))


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_broker_is_stopped_and_started(cluster: Service, verb: str) -> None:
    answer = cluster.ask("POST", f"/v1/nodes/2/{verb}")
    assert [(node["node"], node["is_live"]) for node in answer.json["nodes"]] == [(1, True), (2, False)]
    assert {partition["leader"] for partition in cluster.get("/v1/topics/orders")["partitions"]} == {1}
    assert problem(cluster, 2) is not None
    assert cluster.ask("POST", "/v1/nodes/2/start").json["nodes"][1]["is_live"]
    assert problem(cluster, 2) is None


def test_a_broker_is_restarted(cluster: Service) -> None:
    assert cluster.ask("POST", "/v1/nodes/1/restart").json == cluster.get("/v1/nodes")
    assert problem(cluster, 1) is None


def test_a_partition_gets_another_leader(cluster: Service) -> None:
    for node in (1, 2):
        answer = cluster.ask("POST", "/v1/topics/orders/partitions/3/leader", {"node": node})
        assert answer.json == cluster.get("/v1/topics/orders")["partitions"][3]
        assert answer.json["leader"] == node


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/nodes/3/stop", None),
        ("/v1/topics/orders/partitions/4/leader", {"node": 1}),
        ("/v1/topics/orders/partitions/0/leader", {"node": 3}),
        ("/v1/topics/none/partitions/0/leader", {"node": 1}),
    ],
)
def test_what_is_not_there_is_not_found(cluster: Service, path: str, body: object) -> None:
    assert cluster.ask("POST", path, body).status == 404


def test_the_one_that_is_to_lead_has_to_live(cluster: Service) -> None:
    cluster.ask("POST", "/v1/nodes/2/stop")
    assert cluster.ask("POST", "/v1/topics/orders/partitions/0/leader", {"node": 2}).status == 409
    cluster.ask("POST", "/v1/nodes/2/start")
