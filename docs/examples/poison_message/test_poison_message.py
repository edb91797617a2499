import asyncio

import pytest
from payments import Payments

POISON = [b"\xff\xfe not JSON", b'{"account": "ann"}', b'{"account": "ann", "amount": "a lot"}', b"[]"]

pytestmark = pytest.mark.kshim(topics={"payments": 1, "payments.dead": 1})


async def handle(kshim, service, count):
    """Run the service until it has committed so many payments."""
    running = asyncio.create_task(service.run())
    committed = asyncio.create_task(kshim.group("ledger").wait_committed("payments", 0, count))
    await asyncio.wait([running, committed], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()  # it has failed
    await committed


@pytest.mark.parametrize("poison", POISON)
def test_payments_after_a_poison_message_are_booked(kshim_async, poison):
    service = Payments(kshim_async.client_config("aiokafka"))
    payment = '{"account": "ann", "amount": 10}'
    kshim_async.produce("payments", payment, poison, payment)
    asyncio.run(handle(kshim_async, service, 3))
    assert service.balances == {"ann": 20}
    (dead,) = kshim_async.records("payments.dead")
    assert dead.value == poison
    assert dict(dead.headers)["origin"] == b"payments-0@1"


def test_a_poison_message_is_met_only_once(kshim_async):
    kshim_async.produce("payments", *POISON)
    config = kshim_async.client_config("aiokafka")
    asyncio.run(handle(kshim_async, Payments(config), 4))
    kshim_async.produce("payments", '{"account": "ben", "amount": 5}')
    restarted = Payments(config)
    asyncio.run(handle(kshim_async, restarted, 5))
    assert restarted.balances == {"ben": 5}
    assert len(kshim_async.records("payments.dead")) == len(POISON)
