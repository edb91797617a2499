import asyncio

import pytest
from warehouse import Warehouse

pytestmark = pytest.mark.kshim(topics={"orders": 1})


async def take_orders(kshim, warehouse, count):
    """Run the warehouse until so many orders are taken and committed."""
    running = asyncio.create_task(warehouse.run())
    committed = asyncio.create_task(kshim.group("warehouse").wait_committed("orders", 0, count))
    await asyncio.wait([running, committed], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()  # it has failed
    await committed


@pytest.fixture
def warehouse(kshim_async):
    """It notices within a second that an answer does not come."""
    config = {**kshim_async.client_config("aiokafka"), "request_timeout_ms": 1000, "fetch_max_wait_ms": 100}
    return Warehouse(config, {"coffee": 10})


def test_a_commit_whose_connection_breaks_is_sent_again_and_counts_once(kshim_async, warehouse):
    commit = kshim_async.faults.on("OffsetCommit", group="warehouse").disconnect("after").once()
    kshim_async.produce("orders", "coffee", "coffee", "coffee")
    asyncio.run(take_orders(kshim_async, warehouse, 3))
    assert warehouse.stock == {"coffee": 7}
    assert len(commit.fired) == 1


def test_a_commit_that_is_never_answered_is_sent_again_and_counts_once(kshim_async, warehouse):
    kshim_async.faults.on("OffsetCommit", group="warehouse").drop_reply().once()
    kshim_async.produce("orders", "coffee", "coffee", "coffee")
    asyncio.run(take_orders(kshim_async, warehouse, 3))
    assert warehouse.stock == {"coffee": 7}
    kshim_async.faults.assert_all_used()


def test_a_coordinator_that_loads_is_waited_for(kshim_async, warehouse):
    kshim_async.faults.on("OffsetCommit", group="warehouse").error("COORDINATOR_LOAD_IN_PROGRESS").times(2)
    kshim_async.produce("orders", "coffee")
    asyncio.run(take_orders(kshim_async, warehouse, 1))
    assert warehouse.stock == {"coffee": 9}
    kshim_async.faults.assert_all_used()
