import threading

import pytest
from invoicing import Invoicing


@pytest.fixture
def pause():
    """Stands still at the second order of a transaction until it is set."""
    pause = threading.Event()
    yield pause
    pause.set()


@pytest.mark.kshim(topics={"orders": 1, "invoices": 1})
def test_a_zombie_that_comes_back_invoices_nothing(kshim, start, pause):
    def half_done(order):
        if order == "tea":
            assert pause.wait(60)
        return f"zombie: {order}"

    config = kshim.client_config("confluent-kafka")
    group = kshim.group("invoicing")
    kshim.produce("orders", "coffee", "tea")

    zombie = start(Invoicing(config, "invoicing-1", half_done))
    kshim.wait_records("invoices", isolation="read_uncommitted")  # in a transaction that is open
    group.expel("invoicing-1")  # its node is lost, and an operator removes it
    start(Invoicing(config, "invoicing-2", "heir: {}".format))
    committed = kshim.wait_records("invoices", 2)
    assert [invoice.value for invoice in committed] == [b"heir: coffee", b"heir: tea"]

    pause.set()
    assert zombie.result(timeout=30) == "fenced"
    kshim.produce("orders", "cake")
    committed = kshim.wait_records("invoices", 3)
    assert [invoice.value for invoice in committed] == [b"heir: coffee", b"heir: tea", b"heir: cake"]
    everything = kshim.records("invoices", isolation="read_uncommitted")
    assert everything[0].value == b"zombie: coffee"  # which no consumer of committed records sees
