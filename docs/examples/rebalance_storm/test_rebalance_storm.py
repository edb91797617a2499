import asyncio

import pytest
from price_service import PriceService

INSTANCES = 5

pytestmark = pytest.mark.kshim(topics={"prices": 10}, config={"group.initial.rebalance.delay.ms": "3000"})


async def deploy(kshim, count):
    """Start so many instances at once; returns their tasks, with all waiting for the first generation."""
    config = {**kshim.client_config("aiokafka"), "heartbeat_interval_ms": 100}
    tasks = [asyncio.create_task(PriceService(config, f"pod-{number}").run()) for number in range(count)]
    await kshim.group("prices").wait_until(lambda group: len(group.members) == count)
    return tasks


async def end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_a_deployment_of_five_costs_one_rebalance(kshim_async):
    async def deployment():
        group = kshim_async.group("prices")
        tasks = await deploy(kshim_async, INSTANCES)
        kshim_async.clock.advance(6)  # the broker waits 3 seconds for more, and then again 3 seconds
        view = await group.wait_stable(members=INSTANCES)
        group.assert_rebalances(at_most=1)
        assert [len(partitions) for partitions in view.assignment.values()] == [2] * INSTANCES
        await end(tasks)

    asyncio.run(deployment())


def test_taking_all_instances_away_costs_a_rebalance_for_each_at_most(kshim_async):
    async def going_away():
        group = kshim_async.group("prices")
        tasks = await deploy(kshim_async, INSTANCES)
        kshim_async.clock.advance(6)
        await group.wait_stable(members=INSTANCES)
        await end(tasks)
        await group.wait_empty()
        group.assert_rebalances(at_most=1 + INSTANCES)
        assert {rebalance.why for rebalance in group.rebalances[1:]} == {"member_left"}  # and no session had to expire

    asyncio.run(going_away())
