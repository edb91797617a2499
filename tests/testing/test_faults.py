"""Faults from a test's own thread: described, armed, fired, cancelled, and what a mistake is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
import trio

from kshim.faults.rule import InvalidRule
from kshim.testing import AsyncKshim, Kshim, open_brokers
from kshim.testing.faults import Fault, Faults
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.heartbeat import HeartbeatRequest
from kshim_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kshim_protocol.records.batch import build_batch
from kshim_protocol.records.record import Record
from tests.testing.members import meanwhile

BEAT = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")


def connect(kshim: Kshim | AsyncKshim) -> Client:
    host, _, port = kshim.bootstrap_servers.rpartition(":")
    return Client(host, int(port), client_id="test", timeout_s=20)


def beat(client: Client) -> ErrorCode:
    return ErrorCode(client.ask(BEAT, 4).error_code)


def test_a_rule_acts_from_the_call_that_arms_it_until_it_is_cancelled() -> None:
    with Kshim() as kshim:
        client = connect(kshim)
        fault = kshim.faults.on("Heartbeat", group="bill*").error("FENCED_INSTANCE_ID").always()
        assert [beat(client), beat(client)] == [ErrorCode.FENCED_INSTANCE_ID] * 2
        fault.cancel()
        assert beat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.close()
        kshim.faults.assert_all_used()
    assert [(firing.api, firing.group, firing.client_id) for firing in fault.fired] == [
        ("Heartbeat", "billing", "test")
    ] * 2
    with pytest.raises(RuntimeError, match="closed"):
        fault.cancel()


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        (lambda faults: faults.on("Heartbeat").error("NOT_COORDINATOR").once(), "x..."),
        (lambda faults: faults.on("Heartbeat").error(16).times(2), "xx.."),
        (lambda faults: faults.on("Heartbeat").error(ErrorCode.NOT_COORDINATOR).nth(3), "..x."),
        (lambda faults: faults.on("Heartbeat").error("NOT_COORDINATOR").probability(1, seed=5), "xxxx"),
        (lambda faults: faults.on("Heartbeat", nth=2, version=4).error("NOT_COORDINATOR").once(), ".x.."),
        (lambda faults: faults.add({"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": "once"}), "x..."),
        (lambda faults: faults.load('[[fault]]\non="Heartbeat"\ndo={error="NOT_COORDINATOR"}\nwhen={nth=2}'), ".x.."),
    ],
)
def test_each_trigger_can_be_called_and_each_form_read(arm: Callable[[Faults], object], expected: str) -> None:
    with Kshim() as kshim:
        arm(kshim.faults)
        client = connect(kshim)
        met = "".join("x" if beat(client) == ErrorCode.NOT_COORDINATOR else "." for _ in expected)
        client.close()
        assert met == expected


@pytest.mark.parametrize(
    "arm",
    [
        lambda faults: faults.on("*").delay(1).once(),
        lambda faults: faults.on("Fetch").delay(1, "before").once(),
        lambda faults: faults.on("Fetch", topic="t").hang().once(),
        lambda faults: faults.on("Fetch").drop_reply().once(),
        lambda faults: faults.on("Fetch").disconnect().once(),
        lambda faults: faults.on("Fetch").disconnect("after").once(),
        lambda faults: faults.on("Fetch").throttle(500).once(),
        lambda faults: faults.on("Fetch").truncate().once(),
        lambda faults: faults.on("Fetch").corrupt().once(),
        lambda faults: faults.on("Fetch").oversize().once(),
        lambda faults: faults.on("Fetch").oversize(1_000_000).once(),
        lambda faults: faults.on("OffsetCommit").stale_generation().once(),
        lambda faults: faults.on("OffsetCommit").not_coordinator().once(),
        lambda faults: faults.on("OffsetCommit").loading(2).once(),
        lambda faults: faults.on("Append", topic="t").disk_full().once(),
        lambda faults: faults.on("Produce").slow_fsync(0.5).once(),
        lambda faults: faults.on("Fetch", topic="t").error("OFFSET_OUT_OF_RANGE", level="partition").once(),
    ],
)
def test_each_action_can_be_called(arm: Callable[[Faults], Fault]) -> None:
    with Kshim(brokers=2) as kshim:
        fault = arm(kshim.faults)
        assert [each.fault_id for each in kshim.faults.all] == [fault.fault_id]
        assert kshim.faults.add(kshim.call(lambda: _document(fault))).rule == fault.rule


def _document(fault: Fault) -> dict[str, object]:
    from kshim.faults.document import document_of_rule

    return document_of_rule(fault.rule)


@pytest.mark.parametrize(
    ("describe", "sentence"),
    [
        (
            lambda faults: faults.on("Heartbeat").hang(),
            r'faults.on\("Heartbeat"\).hang\(...\) was never armed: end it with',
        ),
        (lambda faults: faults.on("Fetch"), r'faults.on\("Fetch"\) does not say what happens'),
    ],
)
def test_a_rule_that_was_described_and_not_armed_is_an_error_at_the_end(
    describe: Callable[[Faults], object], sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence), Kshim() as kshim:
        describe(kshim.faults)


def test_what_a_test_fails_with_counts_more_than_a_rule_that_was_not_armed() -> None:
    def describe_and_fail(faults: Faults) -> None:
        faults.on("Fetch")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Kshim() as kshim:
        describe_and_fail(kshim.faults)


def test_assert_all_used_names_what_was_not_armed_and_what_never_fired() -> None:
    with Kshim() as kshim:
        kshim.faults.on("Heartbeat").hang().once()
        with pytest.raises(AssertionError, match="never fired: no Heartbeat request came"):
            kshim.faults.assert_all_used()
        described = kshim.faults.on("Fetch").hang()
        with pytest.raises(AssertionError, match="was never armed"):
            kshim.faults.assert_all_used()
        described.once()
        kshim.faults.clear()
        kshim.faults.assert_all_used()


def test_a_mistake_is_refused_where_it_is_made() -> None:
    with Kshim() as kshim:
        faults = kshim.faults
        with pytest.raises(InvalidRule, match="did you mean Heartbeat"):
            faults.on("Heartbeats")
        with pytest.raises(InvalidRule, match="Fetch requests have no group to match"):
            faults.on("Fetch", group="g")
        with pytest.raises(InvalidRule, match="Heartbeat does not answer OFFSET_OUT_OF_RANGE; it answers"):
            faults.on("Heartbeat").error("OFFSET_OUT_OF_RANGE")
        with pytest.raises(InvalidRule, match='there is no error "9999" in Kafka'):
            faults.on("Heartbeat").error(9999)
        with pytest.raises(InvalidRule, match="delay needs a number of seconds above 0"):
            faults.on("Heartbeat").delay(-1)
        with pytest.raises(InvalidRule, match="times needs an integer from 1 on"):
            faults.on("Heartbeat").hang().times(0)
        with pytest.raises(InvalidRule, match="there is only one: run two"):
            faults.on("Heartbeat").not_coordinator().once()
        faults.clear()


def test_a_reset_ends_all_faults() -> None:
    with Kshim() as kshim:
        kshim.faults.on("Heartbeat").error("FENCED_INSTANCE_ID").always()
        kshim.reset()
        client = connect(kshim)
        assert beat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.close()
        assert kshim.faults.all == []


def test_a_disk_that_is_full_on_demand_is_no_defect_and_each_firing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    batch = build_batch([Record(None, b"v", timestamp_ms=1)])
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=batch),))
    with Kshim(topics={"t": 1}) as kshim, caplog.at_level(logging.INFO, "kshim"):
        kshim.faults.on("Append", topic="t").disk_full().once()
        client = connect(kshim)
        answer = client.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
        client.close()
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [record.getMessage() for record in caplog.records if "Injected" in record.getMessage()] == [
        "Injected fault: Append: disk_full (firing 1) on an append to t-0"
    ]


def test_a_delay_ends_when_the_clock_is_advanced() -> None:
    with Kshim() as kshim:
        kshim.faults.on("Heartbeat").delay(3_600).once()
        client = connect(kshim)
        client.send(BEAT, 4)
        while not kshim.faults.all[0].fired:
            kshim.call(lambda: None)
        kshim.clock.advance(3_600)
        assert client.receive(20).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.close()


@pytest.mark.parametrize("action", ["disconnect", "truncate"])
def test_a_client_that_is_cut_off_sees_its_connection_end(action: str) -> None:
    with Kshim() as kshim:
        getattr(kshim.faults.on("Heartbeat"), action)().once()
        client = connect(kshim)
        with pytest.raises(BrokerGone):
            beat(client)
        client.close()
        client = connect(kshim)
        assert beat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.close()


@pytest.mark.trio
async def test_brokers_under_trio_have_faults_too() -> None:
    async with open_brokers() as brokers:
        fault = brokers.faults.on("Heartbeat").hang().once()
        assert fault.fired == []
        assert repr(fault) == "<Fault fault-1 Heartbeat: hang, once>"
    with pytest.raises(RuntimeError, match="closed"):
        brokers.faults.clear()


# Waiting for it


def test_a_wait_for_a_fault_ends_when_it_has_fired_so_often() -> None:
    with Kshim() as kshim:
        client = connect(kshim)
        fault = kshim.faults.on("Heartbeat").error("NOT_COORDINATOR").always()
        with meanwhile(lambda: fault.wait_fired(times=2)) as fired:
            beat(client)
            assert not fired.done()
            beat(client)
            assert [firing.number for firing in fired.result(timeout=10)] == [1, 2]
        client.close()
    assert len(fault.wait_fired(times=2, timeout=0)) == 2, "also after the brokers have ended"


def test_a_wait_for_a_fault_that_is_over_says_what_came_close() -> None:
    with Kshim() as kshim:
        client = connect(kshim)
        fault = kshim.faults.on("Heartbeat", group="other").error("NOT_COORDINATOR").always()
        beat(client)
        with pytest.raises(
            TimeoutError, match=r"not within 0\.01 s: .*never fired: 1 Heartbeat request came with group"
        ):
            fault.wait_fired(timeout=0.01)
        fault = kshim.faults.on("Heartbeat").error("NOT_COORDINATOR").once()
        beat(client)
        with pytest.raises(TimeoutError, match=r"once\) fired 1 time within 0\.01 s, and not 2"):
            fault.wait_fired(times=2, timeout=0.01)
        with pytest.raises(ValueError, match="times must be a number from 1 on, not 0"):
            fault.wait_fired(times=0)
        client.close()


def test_a_wait_for_a_fault_is_awaited_under_asyncio_and_trio() -> None:
    async def wait() -> None:
        async with Kshim() as kshim:
            fault = kshim.faults.on("Heartbeat").error("NOT_COORDINATOR").once()
            client = connect(kshim)
            client.send(BEAT, 4)
            assert len(await fault.wait_fired()) == 1
            client.close()
            with pytest.raises(TimeoutError, match="and not 2"):
                await fault.wait_fired(times=2, timeout=0.01)

    asyncio.run(wait())
    trio.run(wait)


@pytest.mark.trio
async def test_a_wait_for_a_fault_of_brokers_under_trio_is_awaited() -> None:
    async with open_brokers() as brokers:
        fault = brokers.faults.on("Heartbeat").error("NOT_COORDINATOR").once()
        with pytest.raises(TimeoutError, match="no Heartbeat request came"):
            await fault.wait_fired(timeout=0.01)
        host, _, port = brokers.bootstrap_servers.rpartition(":")

        def ask() -> None:
            client = Client(host, int(port), client_id="test", timeout_s=20)
            beat(client)
            client.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask)
            assert len(await fault.wait_fired()) == 1
