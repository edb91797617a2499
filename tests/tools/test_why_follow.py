"""`kshim why --follow`: what samples show, and what is told of incidents when they have ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from kshim.cli.main import main
from kshim.testing import Kshim
from kshim.tools.logs import SourceError
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.why.follow import Follower
from kshim.tools.why.sampling import Sampler
from kshim_protocol.messages.metadata import MetadataRequest
from tests.tools.peer import MINUTE, ONLY_RECORDS, SESSION_MS, Peer
from tests.tools.test_why import why_json


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with Kshim(topics={"orders": 1}, config=ONLY_RECORDS) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        yield host, int(port)


def latest_ms(follower: Follower) -> int:
    """When the newest thing happened that is known."""
    return max(fact.ts_ms for fact in follower.known.facts)


def test_an_incident_is_told_once_when_it_has_ended(logs: BrokerLogs, one: Peer) -> None:
    one.work()
    follower = Follower(logs, frozenset({"billing"}))
    assert follower.poll(0) == []
    one.leave()
    follower.poll(0)
    left_ms = latest_ms(follower)
    assert follower.poll(left_ms + SESSION_MS - 1) == []
    (incident,) = follower.poll(left_ms + SESSION_MS)
    assert incident.clients == ("one@127.0.0.1",)
    assert str(incident.alternatives[0].cause) == "scale_down"
    assert follower.poll(left_ms + MINUTE) == []
    assert follower.known.sources == ("records", "samples")


def test_nothing_is_told_while_a_group_rebalances(logs: BrokerLogs, one: Peer, two: Peer) -> None:
    one.work()
    follower = Follower(logs, None)
    follower.poll(0)
    one.leave()
    two.work()
    one.member_id = ""
    one.send_join()  # waits for the other one
    assert follower.poll(10**15) == []


def test_a_group_that_does_not_exist_yet_is_waited_for(logs: BrokerLogs, one: Peer) -> None:
    follower = Follower(logs, frozenset({"billing"}))
    assert follower.poll(0) == []
    one.work()
    assert [str(incident.cause) for incident in follower.poll(10**15)] == ["one_by_one_start"]


@pytest.mark.parametrize("groups", [frozenset({"billing"}), None])
def test_samples_show_who_is_there_while_a_group_rebalances(
    groups: frozenset[str] | None, logs: BrokerLogs, one: Peer, two: Peer
) -> None:
    one.work()
    sampler = Sampler(logs, groups)
    (stable,) = sampler.take(1)
    assert stable.state == "Stable"
    assert [member.member_id for member in stable.members or ()] == [one.member_id]
    two.send_join()
    while True:
        (sample,) = sampler.take(2)
        if sample.state != "Stable":
            break
    assert sample.state == "PreparingRebalance"
    assert sample.members is not None
    assert {one.member_id} < {member.member_id for member in sample.members}


def test_members_of_stable_groups_are_asked_for_once(logs: BrokerLogs, one: Peer) -> None:
    one.work()
    sampler = Sampler(logs, None)
    assert [sample.members is None for _ in range(2) for sample in sampler.take(1)] == [False, True]


def test_a_glance_shows_who_is_there_while_a_group_rebalances_and_that_it_has_settled(
    logs: BrokerLogs, one: Peer, two: Peer
) -> None:
    one.work()
    sampler = Sampler(logs, None)
    sampler.take(1_000)
    assert sampler.glance(2_000) == []
    two.send_join()
    while not (found := sampler.glance(3_000)):
        pass  # its request is on the way
    (sample,) = found
    assert sample.state == "PreparingRebalance"
    assert len(sample.members or ()) == 2
    one.leave()
    two.sync(two.joined())
    assert [each.state for each in sampler.glance(4_000)] == ["Stable"]
    assert sampler.glance(5_000) == []


def test_between_two_reads_what_rebalances_is_sampled_and_nothing_is_told(
    logs: BrokerLogs, one: Peer, two: Peer
) -> None:
    one.work()
    follower = Follower(logs, None, interval_s=5)
    follower.poll(10_000)
    two.send_join()
    while not follower.present["billing"].is_rebalancing:  # its request is on the way
        assert follower.poll(11_000) == []
    assert follower.read_count == 1
    follower.poll(15_000)
    assert follower.read_count == 2
    follower.poll(14_000)  # a clock was set back
    assert follower.read_count == 3


def test_a_sample_has_the_time_of_its_answer_for_which_it_may_have_waited() -> None:
    with Kshim(topics={"orders": 1}, config=ONLY_RECORDS) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        with (
            closing(Peer((host, int(port)), "one")) as one,
            closing(BrokerLogs(host, int(port), client_id="test")) as logs,
        ):
            one.work()
            kshim.faults.on("ListGroups").delay(0.1).once()
            (sample,) = Sampler(logs, None).take(1_000)
    assert sample.ts_ms >= 1_100


def test_what_is_forgotten_is_not_told_again() -> None:
    with Kshim(
        topics={"orders": 1}, config=ONLY_RECORDS | {"group.initial.rebalance.delay.ms": "0"}, clock="manual"
    ) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        address = (host, int(port))
        with closing(BrokerLogs(*address, client_id="test")) as logs:
            follower = Follower(logs, None, snapshots_kept=3)
            follower.poll(0)
            told_counts = []
            for _ in range(5):
                peer = Peer(address, "one").work()
                peer.leave()
                peer.close()
                told_counts.append(len(follower.poll(10**15)))
                kshim.clock.advance(3_600)
                with suppress(SourceError):
                    logs.nodes()  # the connection was idle for too long: the next one is new
            assert follower.poll(10**15) == []
    assert told_counts == [2] * 5  # it came, and it left
    assert len({fact.source for fact in follower.known.facts}) < 6


def test_following_needs_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--all", "--data-dir", ".", "--follow"]) == 2
    assert "it needs --bootstrap-server" in capsys.readouterr().err


def test_a_kshim_tells_why_without_an_option_of_its_own_and_a_list_of_its_topics_does_not_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Kshim(topics={"orders": 1}) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        with closing(Peer((host, int(port)), "one")) as one:
            one.work().leave()
            found = why_json(capsys, "billing", "--bootstrap-server", kshim.bootstrap_servers)
            assert found["sources"] == ["events"]
            assert [each["cause"] for each in found["incidents"]] == ["one_by_one_start", "scale_down"]
            listed = {topic.name for topic in one.client.ask(MetadataRequest(topics=None), 12).topics}
            assert listed == {"orders", "__consumer_offsets"}
