import pytest
from order_service import OrderService

FIRST = [f"order {number}" for number in range(100)]
MORE = [f"order {number}" for number in range(100, 200)]

pytestmark = pytest.mark.kshim(topics={"orders": 4})


@pytest.fixture
def config(kshim):
    return {**kshim.client_config("kafka-python"), "heartbeat_interval_ms": 100}


def test_a_late_joiner_gets_its_share_and_each_order_is_billed_once(kshim, config, start):
    billed_by_first, billed_by_second = [], []
    group = kshim.group("billing")

    start(OrderService(config, billed_by_first.append))
    group.wait_stable(members=1)
    kshim.produce("orders", *FIRST)
    start(OrderService(config, billed_by_second.append))
    view = group.wait_stable(members=2)
    assert [len(partitions) for partitions in view.assignment.values()] == [2, 2]

    kshim.produce("orders", *MORE)
    for partition in range(4):
        group.wait_committed("orders", partition, 50)
    assert sorted(billed_by_first + billed_by_second) == sorted(FIRST + MORE)
    assert billed_by_second


def test_a_late_joiner_costs_one_rebalance(kshim, config, start):
    group = kshim.group("billing")
    start(OrderService(config, print))
    kshim.produce("orders", *FIRST)
    for partition in range(4):
        group.wait_committed("orders", partition, 25)
    before = len(group.rebalances)  # kafka-python may need two until it knows the partitions
    start(OrderService(config, print))
    group.wait_stable(members=2)
    assert [rebalance.why for rebalance in group.rebalances[before:]] == ["member_joined"]
