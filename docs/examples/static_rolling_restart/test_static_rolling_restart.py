import pytest
from search_indexer import SearchIndexer

PODS = ["pod-0", "pod-1", "pod-2"]

pytestmark = pytest.mark.kshim(topics={"products": 6})


class Deployment:
    """Pods that are started, and restarted one after the other."""

    def __init__(self, kshim, start):
        self.indexed = []
        self._config = {**kshim.client_config("confluent-kafka"), "heartbeat.interval.ms": 100}
        self._start = start
        self._running = {}

    def start(self, pod):
        indexer = SearchIndexer(self._config, pod, self.indexed.append)
        self._running[pod] = indexer, self._start(indexer)

    def stop(self, pod):
        indexer, ended = self._running.pop(pod)
        indexer.stop()
        ended.result(timeout=20)


def by_pod(group):
    return {member.instance_id: member for member in group.members}


@pytest.fixture
def deployment(kshim, start):
    deployment = Deployment(kshim, start)
    for pod in PODS:
        deployment.start(pod)
    kshim.group("search-indexer").wait_stable(members=3)
    return deployment


def test_a_rolling_restart_moves_no_partition_and_misses_no_product(kshim, deployment):
    group = kshim.group("search-indexer")
    before = by_pod(group)
    products = []
    for pod in PODS:
        deployment.stop(pod)
        products += [f"product {len(products) + number}" for number in range(12)]
        kshim.produce("products", *products[-12:])
        deployment.start(pod)
        old_id = before[pod].member_id
        group.wait_until(lambda view, old=old_id: all(member.member_id != old for member in view.members))
    for partition in range(6):
        group.wait_committed("products", partition, 6)
    assert sorted(deployment.indexed) == sorted(products)
    assert {pod: member.assignment for pod, member in by_pod(group).items()} == {
        pod: member.assignment for pod, member in before.items()
    }


def test_a_rolling_restart_causes_no_rebalance(kshim, deployment):
    group = kshim.group("search-indexer")
    rebalances, before = len(group.rebalances), by_pod(group)
    for pod in PODS:
        deployment.stop(pod)
        deployment.start(pod)
        old_id = before[pod].member_id
        group.wait_until(lambda view, old=old_id: all(member.member_id != old for member in view.members))
    group.assert_rebalances(at_most=rebalances)
