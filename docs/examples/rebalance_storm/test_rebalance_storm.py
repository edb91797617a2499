import asyncio
from contextlib import asynccontextmanager

import pytest
from price_service import PriceService

INSTANCES = 5

pytestmark = pytest.mark.kshim(topics={"prices": 10}, config={"group.initial.rebalance.delay.ms": "3000"})


@asynccontextmanager
async def deployed(kshim):
    """Instances that have been started at once, and are ended at once."""
    config = {**kshim.client_config("aiokafka"), "heartbeat_interval_ms": 100}
    tasks = [asyncio.create_task(PriceService(config, f"pod-{number}").run()) for number in range(INSTANCES)]
    try:
        await kshim.group("prices").wait_until(lambda group: len(group.members) == INSTANCES)
        kshim.clock.advance(6)  # the broker waits 3 seconds for more, and then again 3 seconds
        yield await kshim.group("prices").wait_stable(members=INSTANCES)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def test_a_deployment_of_five_costs_one_rebalance(kshim_async):
    async def deployment():
        async with deployed(kshim_async) as group:
            assert [len(partitions) for partitions in group.assignment.values()] == [2] * INSTANCES
            kshim_async.group("prices").assert_rebalances(at_most=1)

    asyncio.run(deployment())


def test_taking_all_instances_away_costs_a_rebalance_for_each_at_most(kshim_async):
    async def going_away():
        group = kshim_async.group("prices")
        async with deployed(kshim_async):
            pass
        await group.wait_empty()
        group.assert_rebalances(at_most=1 + INSTANCES)
        assert {rebalance.why for rebalance in group.rebalances[1:]} == {"member_left"}  # and no session had to expire

    asyncio.run(going_away())
