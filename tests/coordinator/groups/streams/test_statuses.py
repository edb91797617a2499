"""What a heartbeat says of the state of things. The sentences are those of a live Kafka 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kshim.coordinator.groups.streams.configured_topology import ConfiguredTopology, TopologyStatus
from kshim.coordinator.groups.streams.group import NOTHING_SAID
from kshim.coordinator.groups.streams.plan import Delay
from kshim.coordinator.groups.streams.statuses import creation_failed, statuses, unauthorized
from kshim.coordinator.groups.streams.topology import Topology
from kshim_protocol.internal.streams_group import KeyValue, StreamsGroupMemberMetadataValue

READY = ConfiguredTopology(1, {})


def metadata(*, topology_epoch: int = 1, tags: tuple[str, ...] = ()) -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        rebalance_timeout_ms=1_000,
        topology_epoch=topology_epoch,
        process_id="p",
        user_endpoint=None,
        client_tags=tuple(KeyValue(key=tag, value="x") for tag in tags),
    )


def said(
    member: StreamsGroupMemberMetadataValue | None = None, configured: ConfiguredTopology = READY, **facts: Any
) -> list[tuple[int, str]]:
    """Code and sentence of each, where nothing is to be said unless `facts` give reason to. The group's topology is of epoch 1."""
    usual: dict[str, Any] = {
        "shutdown_member_id": None,
        "delay": None,
        "creation": "",
        "rack_aware_tags": "",
        "api_version": 1,
    }
    found = statuses(Topology(1, ()), member or metadata(), configured, **{**usual, **facts})
    return [(each.status_code, each.status_detail) for each in found]


def test_where_all_is_well_nothing_is_said() -> None:
    assert said() == []


def test_a_member_is_told_that_its_topology_is_older_than_the_groups_and_not_that_it_is_newer() -> None:
    sentence = "The member's topology epoch 0 is behind the group's topology epoch 1."
    assert said(metadata(topology_epoch=0)) == [(0, sentence)]
    assert said(metadata(topology_epoch=2)) == []
    assert said(NOTHING_SAID) == [(0, sentence.replace("epoch 0", "epoch -1"))]


@pytest.mark.parametrize(
    ("delay", "sentence"),
    [
        (Delay.INITIAL, "Assignment delayed due to the configured initial rebalance delay."),
        (Delay.INTERVAL, "Assignment delayed due to the configured assignment interval."),
    ],
)
def test_who_waits_for_a_target_is_told_why(delay: Delay, sentence: str) -> None:
    assert said(delay=delay) == [(5, sentence)]


def test_why_internal_topics_are_missing_is_said_with_them_and_with_no_other_problem() -> None:
    missing = ConfiguredTopology(1, {}, (), TopologyStatus.MISSING_INTERNAL_TOPICS, "Missing: a")
    assert said(configured=missing) == [(3, "Missing: a")]
    assert said(configured=missing, creation="; and why") == [(3, "Missing: a; and why")]
    unknown = ConfiguredTopology(1, None, (), TopologyStatus.MISSING_SOURCE_TOPICS, "No sources")
    assert said(configured=unknown, creation="; and why") == [(1, "No sources")]


def test_all_are_told_who_wants_the_application_to_stop() -> None:
    sentence = "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    assert said(shutdown_member_id="a") == [(4, sentence)]
    assert said(shutdown_member_id="") == [(4, sentence.replace("member a", "member "))]


@pytest.mark.parametrize(
    ("wanted", "known", "missing"),
    [
        ("", (), None),
        (" ", (), None),
        ("zone", (), "zone"),
        ("zone", ("zone",), None),
        ("zone,cluster", (), "zone, cluster"),
        (" zone , cluster ", ("zone",), "cluster"),
        ("zone,cluster", ("cluster", "zone"), None),
    ],
)
def test_tags_that_standbys_need_are_missed(wanted: str, known: tuple[str, ...], missing: str | None) -> None:
    sentence = (
        f"Missing required client tags for rack-aware standby assignment: [{missing}]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    expected = [] if missing is None else [(6, sentence)]
    assert said(metadata(tags=known), rack_aware_tags=wanted) == expected
    assert said(metadata(tags=known), rack_aware_tags=wanted, api_version=0) == []  # which does not know this status


def test_all_that_holds_is_said_in_kafkas_order() -> None:
    missing = ConfiguredTopology(1, {}, (), TopologyStatus.MISSING_INTERNAL_TOPICS, "Missing: a")
    found = said(
        metadata(topology_epoch=0), missing, shutdown_member_id="a", delay=Delay.INITIAL, rack_aware_tags="zone"
    )
    assert [code for code, _ in found] == [0, 5, 3, 4, 6]


def test_topics_that_may_not_be_made_are_all_named() -> None:
    assert unauthorized(["a"]) == "; Unauthorized to CREATE on topics a."
    assert unauthorized(["a", "b", "c", "d"]) == "; Unauthorized to CREATE on topics a, b, c, d."


def test_of_topics_that_could_not_be_made_three_are_named() -> None:
    assert creation_failed({}) == ""
    assert creation_failed({"a": "no room"}) == "; Creation failed: a (no room)."
    assert creation_failed(dict.fromkeys("abc", "x")) == "; Creation failed: a (x), b (x), c (x)."
    assert creation_failed(dict.fromkeys("abcd", "x")) == "; Creation failed: a (x), b (x), c (x) and 1 more."
    assert creation_failed(dict.fromkeys("abcdef", "x")) == "; Creation failed: a (x), b (x), c (x) and 3 more."
