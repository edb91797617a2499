"""`kshim why` of a share group on a running broker: what is told of its records is what members did with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from kshim.cli.main import main
from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.share_acknowledge import AcknowledgementBatch as Acknowledgement
from kshim_protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kshim_protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

LOCK_S = 15
LIMIT = 3
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
HEARTBEAT_S = 5
CONFIG = {
    "kshim.history.topic.enable": "true",
    "group.share.record.lock.duration.ms": str(LOCK_S * 1_000),
    "group.share.delivery.count.limit": str(LIMIT),
}
Range = tuple[int, int]


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 1}, clock="manual", config=CONFIG) as found:
        yield found


@pytest.fixture
def team(kshim: Kshim) -> Iterator[Team]:
    with ExitStack() as stack:
        yield Team(kshim, stack)


class Consumer:
    """A member of the group `queue` that reads orders-0, request by request."""

    def __init__(self, kshim: Kshim, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.epoch = 0
        self.session_epoch = 0
        topic = kshim.cluster.topics.named("orders")
        assert topic is not None
        self.topic_id = topic.topic_id

    def heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id="queue",
            member_id=self.name,
            member_epoch=self.epoch,
            subscribed_topic_names=None if self.epoch else ("orders",),
        )
        answer = self.client.ask(request, 1)
        assert answer.error_code == ErrorCode.NONE
        self.epoch = answer.member_epoch

    def fetch(self, most: int = 500) -> list[Range]:
        """What it is given: at most so many records."""
        partition = FetchPartition(partition_index=0, acknowledgement_batches=())
        request = ShareFetchRequest(
            group_id="queue",
            member_id=self.name,
            share_session_epoch=self.session_epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=most,
            batch_size=most,
            share_acquire_mode=1,
            topics=(FetchTopic(topic_id=self.topic_id, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        answer = self.client.ask(request, 2)
        assert answer.error_code == ErrorCode.NONE
        self.session_epoch += 1
        return [
            (each.first_offset, each.last_offset)
            for topic in answer.responses
            for one in topic.partitions
            for each in one.acquired_records
        ]

    def say(self, type_: int, ranges: Sequence[Range]) -> None:
        """The same of all records of these ranges."""
        batches = tuple(
            Acknowledgement(first_offset=first, last_offset=last, acknowledge_types=(type_,)) for first, last in ranges
        )
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id="queue",
            member_id=self.name,
            share_session_epoch=self.session_epoch,
            is_renew_ack=type_ == RENEW,
            topics=(AcknowledgeTopic(topic_id=self.topic_id, partitions=(partition,)),),
        )
        answer = self.client.ask(request, 2)
        assert answer.error_code == ErrorCode.NONE
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        self.session_epoch += 1


class Team:
    """Members of the group, which all go on with their heartbeats while time passes."""

    def __init__(self, kshim: Kshim, stack: ExitStack) -> None:
        self.kshim = kshim
        self._stack = stack
        self._members: list[Consumer] = []

    def join(self, *names: str) -> list[Consumer]:
        """New members; the partition can be read when this returns."""
        host, _, port = self.kshim.bootstrap_servers.rpartition(":")
        for name in names:
            client = self._stack.enter_context(closing(Client(host, int(port), client_id=name)))
            self._members.append(Consumer(self.kshim, client, name))
        self.live(2 * HEARTBEAT_S)
        for each in self._members:
            each.fetch()  # a group begins with the records that come after that
        return self._members

    def live(self, seconds: float) -> None:
        """Time passes."""
        for each in self._members:
            each.heartbeat()
        while seconds > 0:
            self.kshim.clock.advance(min(seconds, HEARTBEAT_S))
            seconds -= HEARTBEAT_S
            for each in self._members:
                each.heartbeat()

    def produce(self, count: int) -> None:
        """So many records."""
        self.kshim.produce("orders", *(f"{number}" for number in range(count)))


def incidents(team: Team, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What is told but for the beginning of the group; what was done is written by then."""
    team.live(2 * HEARTBEAT_S)
    assert main(["why", "queue", "--bootstrap-server", team.kshim.bootstrap_servers, "--output", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["incidents"]
    return [each for each in found if each["cause"] not in ("one_by_one_start", "scale_up")]


def test_a_group_whose_members_are_done_with_what_they_get_has_no_incident(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = team.join("one", "two")
    for _ in range(5):
        team.produce(10)
        for each in (one, two):
            each.say(ACCEPT, each.fetch(5))
            team.live(1)
    assert incidents(team, capsys) == []
    types = {event.type for event in team.kshim.call(lambda: list(team.kshim.cluster.history.ring))}
    assert not [type_ for type_ in types if type_.startswith("records_")], "nothing is told of what goes well"


def test_a_member_whose_locks_end_again_and_again_is_named(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = team.join("slow", "fast")
    team.produce(40)
    lost: list[list[Range]] = []
    for _ in range(4):
        lost.append(slow.fetch(5))
        team.live(LOCK_S)
        fast.say(ACCEPT, fast.fetch(5))
        team.live(1)
    [incident] = incidents(team, capsys)
    assert (incident["cause"], incident["clients"], incident["basis"]) == (
        "lock_timeout",
        ["slow@127.0.0.1"],
        "observed",
    )
    assert sum(each["times"] for each in incident["records"]) == 4
    assert sum(each["deliveries"] for each in incident["records"]) == sum(
        last - first + 1 for ranges in lost for first, last in ranges
    )
    assert all(each["held_ms"] == LOCK_S * 1_000 for each in incident["records"])
    assert "group.share.record.lock.duration.ms" in incident["advice"]
    assert "which is 15000 ms" in incident["advice"]


def test_a_record_that_nobody_can_process_is_named_with_its_offset_and_deliveries(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    members = team.join("one", "two", "three")
    team.produce(3)
    for each in members:  # the second record is released by each of them
        for first, last in each.fetch():
            for offset in range(first, last + 1):
                each.say(RELEASE if offset == 1 else ACCEPT, [(offset, offset)])
        team.live(2)
    assert all(each.fetch() == [] for each in members), "it is delivered to nobody any more"
    found = {each["cause"]: each for each in incidents(team, capsys)}
    poison = found["poison_record"]
    (records,) = poison["records"]
    assert records["ranges"] == [{"first_offset": 1, "last_offset": 1, "delivery_count": LIMIT}]
    assert (records["topic"], records["partition"], records["ended_by"]) == ("orders", 0, "released")
    assert "orders-0 offset 1 (3 deliveries" in poison["sentence"]
    assert "group.share.delivery.count.limit" in poison["advice"]
    assert "3 members had them" in json.dumps(poison["evidence"])


def test_records_that_one_slow_member_has_each_time_are_no_poison(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    (slow,) = team.join("slow")
    team.produce(4)
    slow.say(ACCEPT, slow.fetch(1))
    for _ in range(LIMIT + 3):
        slow.fetch(3)
        team.live(LOCK_S + 1)
    found = incidents(team, capsys)
    assert {(each["cause"], *each["clients"]) for each in found} == {("lock_timeout", "slow@127.0.0.1")}


def test_what_an_application_rejects_is_told_as_that(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = team.join("one")
    team.produce(2)
    one.say(REJECT, one.fetch(1))
    one.say(ACCEPT, one.fetch(1))
    [incident] = incidents(team, capsys)
    assert incident["cause"] == "poison_record"
    assert [each["ranges"][0]["first_offset"] for each in incident["records"]] == [0]
    assert "the application rejected them" in json.dumps(incident["evidence"])


def test_a_member_that_gives_back_the_same_records_is_named(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = team.join("one")
    team.produce(2)
    one.say(RELEASE, one.fetch())
    team.live(2)
    one.say(RELEASE, one.fetch())
    team.live(2)
    one.say(ACCEPT, one.fetch())
    [incident] = incidents(team, capsys)
    assert (incident["cause"], incident["clients"]) == ("records_released", ["one@127.0.0.1"])
    assert [each["delivery_count"] for each in incident["records"]] == [2], "the first time is what a release is for"


def test_a_member_that_holds_records_by_renewing_their_locks_is_named(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = team.join("one")
    team.produce(2)
    held = one.fetch()
    for _ in range(5):
        team.live(HEARTBEAT_S * 2)
        one.say(RENEW, held)
    one.say(ACCEPT, held)
    [incident] = incidents(team, capsys)
    assert (incident["cause"], incident["clients"]) == ("records_held", ["one@127.0.0.1"])
    assert max(each["held_ms"] for each in incident["records"]) == 5 * HEARTBEAT_S * 2 * 1_000


def test_a_storm_of_single_records_is_one_event_that_names_some_of_them(team: Team) -> None:
    (one,) = team.join("one")
    team.produce(200)
    held = one.fetch()
    offsets = [offset for first, last in held for offset in range(first, last + 1)]
    assert len(offsets) == 200
    for offset in offsets:
        one.say(RELEASE if offset % 2 else ACCEPT, [(offset, offset)])
    team.live(HEARTBEAT_S)
    events = team.kshim.call(lambda: [event.document() for event in team.kshim.cluster.history.ring])
    (event,) = [event for event in events if event["type"] == "records_returned"]
    records = event["records"]
    assert (records["count"], records["first_offset"], records["last_offset"]) == (100, 1, 199)
    assert (len(records["ranges"]), records["ranges_omitted"]) == (50, 50)


def test_records_of_a_member_that_has_died_are_no_incident_of_their_own(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, _ = team.join("dead", "alive")
    team.produce(5)
    assert dead.fetch() == [(0, 4)]
    team._members.remove(dead)
    team.live(100)
    found = incidents(team, capsys)
    assert [each["clients"] for each in found] == [["dead@127.0.0.1"]]
    assert found[0]["cause"] in ("killed", "paused", "unknown")
