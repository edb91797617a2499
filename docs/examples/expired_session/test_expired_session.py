import threading

import pytest
from report_worker import ReportWorker


@pytest.fixture
def slow():
    """Makes a report only when it is allowed to."""

    class Slow:
        begun, allowed = threading.Event(), threading.Event()

        def make(self, name):
            self.begun.set()
            assert self.allowed.wait(30)
            return f"{name}, late"

    slow = Slow()
    yield slow
    slow.allowed.set()


@pytest.mark.kshim(topics={"reports": 1})
def test_a_report_whose_worker_was_away_for_45_seconds_is_published_by_another_only(kshim, start, slow):
    config = {**kshim.client_config("kafka-python"), "heartbeat_interval_ms": 100}
    group = kshim.group("report-workers")
    first = ReportWorker(config, "worker-1", slow.make)
    second = ReportWorker(config, "worker-2", "{}, in time".format)
    kshim.produce("reports", "sales")

    start(first)
    assert slow.begun.wait(30)
    (member,) = group.members
    fired = kshim.clock.advance(46)
    assert member.session_timeout_ms == 45_000
    assert [timer.kind for timer in fired if timer.kind == "session"] == ["session"]
    group.wait_empty(timeout=0)

    start(second)
    group.wait_committed("reports", 0, 1)
    slow.allowed.set()
    group.wait_stable(members=2)  # the first notices, and joins again
    assert second.published == ["sales, in time"]
    assert (first.published, first.thrown_away) == ([], ["sales, late"])
    assert "session_timeout" in [rebalance.why for rebalance in group.rebalances]
