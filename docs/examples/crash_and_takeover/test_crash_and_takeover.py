import json
import os
import subprocess
import sys
from collections import Counter

import pytest
import shipping

ORDERS = [f"order-{number}" for number in range(5)]


@pytest.fixture
def doomed(kshim):
    """An instance in a process of its own, which can be killed."""
    config = json.dumps(kshim.client_config("confluent-kafka"))
    environment = {**os.environ, "KAFKA": config, "NAME": "shipping-1"}
    process = subprocess.Popen([sys.executable, shipping.__file__], env=environment)
    yield process
    process.kill()
    process.wait()


@pytest.mark.kshim(topics={"orders": 1, "shipments": 1})
def test_when_an_instance_crashes_another_ships_what_it_has_not_committed(kshim, doomed, start):
    group = kshim.group("shipping")
    kshim.faults.on("OffsetCommit", client_id="shipping-1").hang().nth(3)
    for order in ORDERS:
        kshim.produce("orders", order, key=order)

    kshim.wait_records("shipments", 3, timeout=30)  # the third is announced, and its commit hangs
    doomed.kill()
    group.expire("shipping-1")  # as if 45 seconds had passed without a heartbeat
    start(shipping.Shipping(kshim.client_config("confluent-kafka"), "shipping-2"))
    group.wait_committed("orders", 0, 5)

    shipments = kshim.records("shipments")
    assert Counter(shipment.key.decode() for shipment in shipments) == {**dict.fromkeys(ORDERS, 1), "order-2": 2}
    assert shipments[3].value == b"shipping-2 ships order-2"
    assert [rebalance.why for rebalance in group.rebalances] == ["member_joined", "session_timeout", "member_joined"]
