"""Which requests a trigger lets through, in which order rules are asked, and what is said of those that never fired."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.faults.faults import Fault, Faults
from kshim.faults.rule import InvalidRule
from kshim.harness.rebalances import rebalances_of, timeline_of
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kshim_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kshim_protocol.messages.describe_transactions import DescribeTransactionsRequest
from kshim_protocol.messages.end_txn import EndTxnRequest
from kshim_protocol.messages.find_coordinator import FindCoordinatorRequest
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.produce import ProduceRequest
from kshim_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kshim_protocol.schema import Request
from tests.broker.harness import a_node
from tests.faults.harness import a_commit, a_heartbeat, a_join, a_sync, arm, faults_of, joined

FENCED = int(ErrorCode.FENCED_INSTANCE_ID)


def fenced(when: object, requests: int = 6, **match: object) -> str:
    """Which of some heartbeats meet a fault: `x` for one that does."""
    node = a_node()
    arm(faults_of(node), "Heartbeat", {"error": "FENCED_INSTANCE_ID"}, when, **match)
    client = node.client()
    return "".join("x" if client.ask(a_heartbeat(), 4).error_code == FENCED else "." for _ in range(requests))


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("once", "x....."),
        ({"times": 3}, "xxx..."),
        ({"nth": 3}, "..x..."),
        ("always", "xxxxxx"),
        ({"probability": 1, "seed": 1}, "xxxxxx"),
    ],
)
def test_a_trigger_lets_these_through(when: object, expected: str) -> None:
    assert fenced(when) == expected


def test_a_seed_draws_the_same_requests_each_time_and_another_seed_others() -> None:
    draws = [fenced({"probability": 0.5, "seed": seed}, 40) for seed in (7, 7, 8)]
    assert draws[0] == draws[1] != draws[2]
    assert 5 < draws[0].count("x") < 35


def test_nth_in_the_match_counts_the_requests_that_match_otherwise() -> None:
    assert fenced("always", nth=4) == "...x.."
    assert fenced("once", nth=2) == ".x...."


def test_a_rule_acts_until_it_is_cancelled() -> None:
    node = a_node()
    faults = faults_of(node)
    fault = arm(faults, "Heartbeat", {"error": "FENCED_INSTANCE_ID"}, "always")
    client = node.client()
    assert client.ask(a_heartbeat(), 4).error_code == FENCED
    faults.cancel(fault)
    faults.cancel(fault)
    assert client.ask(a_heartbeat(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (len(fault.fired), fault.is_over, faults.all) == (1, True, [fault])
    faults.clear()
    assert faults.all == []


def test_of_two_rules_for_a_request_the_first_acts_and_the_second_when_that_is_over() -> None:
    node = a_node()
    faults = faults_of(node)
    arm(faults, "Heartbeat", {"error": "FENCED_INSTANCE_ID"}, {"times": 2})
    arm(faults, "Heartbeat", {"error": "REBALANCE_IN_PROGRESS"}, {"nth": 2})
    client = node.client()
    codes = [client.ask(a_heartbeat(), 4).error_code for _ in range(4)]
    assert codes == [FENCED, FENCED, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("match", "fires"),
    [
        ({"group": "g"}, True),
        ({"group": "b*"}, False),
        ({"member_id": "m"}, True),
        ({"member_id": "n"}, False),
        ({"group_instance_id": "i-?"}, True),
        ({"group_instance_id": "j"}, False),
        ({"client_id": "test*"}, True),
        ({"client_id": "other"}, False),
        ({"version": "3-4"}, True),
        ({"version": 4}, True),
        ({"version": "0-3"}, False),
        ({"listener": "PLAINTEXT"}, True),
        ({"listener": "SSL"}, False),
        ({"broker": 1}, True),
        ({"broker": 2}, False),
        ({"group": "g", "member_id": "n"}, False),
    ],
)
def test_a_rule_is_for_the_requests_that_match_in_everything(match: dict[str, object], fires: bool) -> None:
    node = a_node(node_count=2)
    fault = arm(faults_of(node), "Heartbeat", {"error": "FENCED_INSTANCE_ID"}, **match)
    node.client().ask(a_heartbeat(instance="i-1"), 4)
    assert bool(fault.fired) is fires


def test_a_firing_says_when_what_and_who() -> None:
    node = a_node(topics={"t": 2})
    fault = arm(faults_of(node), "OffsetCommit", {"error": "NOT_COORDINATOR"}, topic="t", partition=1)
    node.pass_ms(5)
    node.client("billing-1").ask(a_commit(t=2), 9)
    (firing,) = fault.fired
    assert (firing.api, firing.version, firing.client_id, firing.group) == ("OffsetCommit", 9, "billing-1", "g")
    assert (firing.now, firing.broker, firing.topic_partitions) == (node.now, 1, ("t-1",))
    assert str(firing) == (
        "OffsetCommit: error NOT_COORDINATOR (firing 1) on OffsetCommit v9 of billing-1 at 127.0.0.1 (group g, t-1)"
    )


def unused(faults: Faults) -> str:
    with pytest.raises(AssertionError) as raised:
        faults.assert_all_used()
    return str(raised.value)


def test_what_never_fired_is_named_with_what_came_close() -> None:
    node = a_node(topics={"t": 1})
    faults = faults_of(node)
    arm(faults, "JoinGroup", "hang")
    arm(faults, "OffsetCommit", "hang", group="billing")
    arm(faults, "OffsetCommit", "hang", topic="t", partition=7)
    arm(faults, "Heartbeat", "hang", {"nth": 3})
    arm(faults, "Heartbeat", "hang", {"probability": 0.000001, "seed": 1})
    client = node.client()
    client.ask(a_commit("other", t=1), 9)
    client.ask(a_commit("other", t=1), 9)
    client.ask(a_heartbeat(), 4)
    assert unused(faults).splitlines() == [
        "JoinGroup: hang (fault-1, once) never fired: no JoinGroup request came",
        'OffsetCommit: hang (fault-2, once) never fired: 2 OffsetCommit requests came with group "other", not "billing"',
        'OffsetCommit: hang (fault-3, once) never fired: 2 OffsetCommit requests came with topic and partition "t-0", not '
        "t-7",
        "Heartbeat: hang (fault-4, nth(3)) never fired: 1 Heartbeat request matched, number 3 was to fire",
        "Heartbeat: hang (fault-5, probability(1e-06)) never fired: 1 Heartbeat request matched, none was drawn",
    ]


def test_what_has_fired_is_not_named() -> None:
    node = a_node()
    faults = faults_of(node)
    arm(faults, "Heartbeat", {"error": "FENCED_INSTANCE_ID"}, {"times": 5})
    node.client().ask(a_heartbeat(), 4)
    faults.assert_all_used()


def test_a_rule_that_these_brokers_cannot_carry_out_is_not_put_in_force() -> None:
    faults = faults_of(a_node())
    with pytest.raises(InvalidRule, match="there is only one: run two"):
        arm(faults, "Heartbeat", "not_coordinator")
    with pytest.raises(InvalidRule, match="there is no broker 9: the ids are 1"):
        arm(faults, "Heartbeat", "hang", broker=9)
    assert faults.all == []


def test_a_fault_is_found_by_its_id() -> None:
    faults = faults_of(a_node())
    first: Fault = arm(faults, "Heartbeat", "hang")
    assert faults.find("fault-1") is first
    with pytest.raises(LookupError, match="there is no fault 'fault-2'; there are fault-1"):
        faults.find("fault-2")


def test_the_next_events_of_a_group_name_the_faults_since_the_last_ones() -> None:
    node = a_node({"group.initial.rebalance.delay.ms": "3000"})
    faults = faults_of(node)
    arm(faults, "JoinGroup", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}, {"times": 2})
    arm(faults, "JoinGroup", {"throttle": 1})
    client = node.client()
    for _ in range(2):
        client.ask(a_join(), 9)
    member_id = client.ask(a_join(), 9).member_id
    client.send(a_join(member_id), 9)
    node.pass_ms(3_000)
    both = "JoinGroup: error COORDINATOR_LOAD_IN_PROGRESS; JoinGroup: throttle 1"
    events = [(event.type, event.injected_fault) for event in node.cluster.history.ring]
    assert events == [("member_joined", both), ("rebalance_started", both), ("join_completed", None)]
    documents = [event.document()["injected_fault"] for event in node.cluster.history.ring]
    assert documents == [both, both, None]


def test_a_rebalance_is_explained_with_the_faults_that_led_to_it() -> None:
    node = a_node()
    client = node.client()
    member_id = joined(client).member_id
    client.ask(a_sync(member_id), 5)
    arm(faults_of(node), "Heartbeat", "hang", "always", group="g")
    client.send(a_heartbeat(member=member_id), 4)
    node.pass_ms(10_000)
    first, second = rebalances_of(node.cluster, "g")
    assert (first.injected_faults, second.injected_faults) == ((), ("Heartbeat: hang",))
    assert second.why == "session_timeout"
    assert second.explain().endswith("Faults that were injected before or during it: Heartbeat: hang.")
    assert "session_timeout" in timeline_of(node.cluster, "g").splitlines()[-1]
    assert timeline_of(node.cluster, "g").splitlines()[-1].endswith(", after the injected fault Heartbeat: hang")


PRODUCER: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0}
_TOPICS = (AddPartitionsToTxnTopic(name="t", partitions=(0,)),)
TRANSACTIONAL: list[tuple[Request[Any], int]] = [
    (InitProducerIdRequest(transactional_id="pay-1", transaction_timeout_ms=60_000), 4),
    (AddPartitionsToTxnRequest(v3_and_below_transactional_id="pay-1", v3_and_below_topics=_TOPICS), 3),
    (AddOffsetsToTxnRequest(transactional_id="pay-1", group_id="g", **PRODUCER), 3),
    (EndTxnRequest(transactional_id="pay-1", committed=True, **PRODUCER), 3),
    (TxnOffsetCommitRequest(transactional_id="pay-1", group_id="g", topics=(), **PRODUCER), 3),
    (ProduceRequest(transactional_id="pay-1", acks=-1, timeout_ms=1_000, topic_data=()), 9),
    (DescribeTransactionsRequest(transactional_ids=("other", "pay-1")), 0),
    (FindCoordinatorRequest(key="pay-1", key_type=1), 2),
    (FindCoordinatorRequest(coordinator_keys=("pay-1",), key_type=1), 4),
]


@pytest.mark.parametrize(("asked", "version"), TRANSACTIONAL, ids=lambda value: type(value).__name__)
def test_a_rule_for_a_transactional_id_is_for_requests_that_name_it(asked: Request[Any], version: int) -> None:
    node = a_node()
    faults = faults_of(node)
    api = type(asked).__name__.removesuffix("Request")
    other = arm(faults, api, "hang", transactional_id="order-*")
    fault = arm(faults, api, "hang", transactional_id="pay-*")
    node.client().send(asked, version)
    assert [firing.transactional_ids[-1] for firing in fault.fired] == ["pay-1"]
    assert "transactional id" in str(fault.fired[0])
    assert '"pay-1", not "order-*"' in other.why_unused()


def test_what_has_no_transactional_id_cannot_be_matched_by_it() -> None:
    with pytest.raises(InvalidRule, match="Heartbeat requests have no transactional_id to match; there are version"):
        arm(faults_of(a_node()), "Heartbeat", "hang", transactional_id="pay")
