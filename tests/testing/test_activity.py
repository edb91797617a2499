"""What an event says of the process of a member that came or went: the evidence for why."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from kshim.testing import Kshim
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.testing.members import Member, epoch_member, meanwhile, member

_RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 1}) as running:
        yield running


def settled(found: Member) -> None:
    assert found.join() == ErrorCode.NONE
    assert found.sync({found.member_id: (0,)}) == ErrorCode.NONE


def events(kshim: Kshim, type_: str) -> list[dict[str, Any]]:
    documents = kshim.call(lambda: [event.document() for event in kshim.cluster.history.ring])
    return [document for document in documents if document["type"] == type_]


def activity(kshim: Kshim, type_: str = "member_left") -> dict[str, Any]:
    (event,) = events(kshim, type_)
    found: dict[str, Any] = event["activity"]
    return found


def wait_for_end(kshim: Kshim, ann: Member) -> None:
    """Return when the broker has noticed that the member's connection has ended; others are served meanwhile."""
    with member(kshim, "other") as other:
        for _ in range(10_000):
            other.client.ask(ApiVersionsRequest(), 3)
            found = kshim.call(kshim.cluster.client_activity.of, ann.member_id, "ann", "/127.0.0.1")
            if found is not None and found.closed_by is not None:
                return
    pytest.fail("the end of the connection was never noticed")


def test_a_member_that_is_silent_on_an_open_connection(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        assert ann.heartbeat() == ErrorCode.NONE
        silent_since = kshim.clock.now
        kshim.clock.advance(46)
        found = activity(kshim)
        assert (found["closed_ms"], found["closed_by"]) == (None, None)
        assert found["last_api"] == "Heartbeat"
        assert found["last_request_ms"] <= silent_since * 1_000
        assert found["last_fetch_ms"] is None


def test_a_member_whose_connection_was_closed_in_good_order(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
    wait_for_end(kshim, ann)
    kshim.clock.advance(46)
    found = activity(kshim)
    assert found["closed_by"] == "client"
    assert found["last_request_ms"] <= found["closed_ms"] < kshim.clock.now * 1_000 - 40_000


def test_a_member_whose_connection_was_reset(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        ann.client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    wait_for_end(kshim, ann)
    kshim.clock.advance(46)
    assert activity(kshim)["closed_by"] == "reset"


def test_a_member_that_goes_on_over_another_connection(kshim: Kshim) -> None:
    with member(kshim) as ann, member(kshim) as again:
        settled(ann)
        (joined,) = events(kshim, "member_joined")
        ann.client.close()
        again.identity = ann.identity
        assert again.heartbeat() == ErrorCode.NONE
        assert again.leave() == ErrorCode.NONE
        found = activity(kshim)
        assert found["closed_by"] is None
        assert found["connection_id"] != joined["activity"]["connection_id"]


def test_of_several_connections_of_a_member_the_one_on_which_it_spoke_last(kshim: Kshim) -> None:
    with member(kshim) as ann, member(kshim) as again:
        settled(ann)
        (joined,) = events(kshim, "member_joined")
        again.identity = ann.identity
        for each in (again, ann):
            kshim.clock.advance(5)
            assert each.heartbeat() == ErrorCode.NONE
        kshim.clock.advance(46)
        found = activity(kshim)
        assert found["connection_id"] == joined["activity"]["connection_id"]
        assert found["last_request_ms"] == pytest.approx((kshim.clock.now - 46) * 1_000, abs=3_000)


def test_fetches_of_the_same_client_over_another_connection(kshim: Kshim) -> None:
    with member(kshim) as ann, member(kshim) as fetcher:
        settled(ann)
        fetcher.client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), 4)
        fetched = kshim.clock.now
        kshim.clock.advance(46)
        assert activity(kshim)["last_fetch_ms"] == pytest.approx(fetched * 1_000, abs=5_000)


def test_fetches_of_processes_that_share_a_client_id_and_a_host_are_told_apart_by_when_they_connect(
    kshim: Kshim,
) -> None:
    with member(kshim) as ann, member(kshim) as fetcher:
        settled(ann)
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
        fetcher.client.ask(fetch, 4)
        fetched = kshim.clock.now
        kshim.clock.advance(20)
        assert ann.heartbeat() == ErrorCode.NONE
        with member(kshim, group_id="mails") as other:
            settled(other)
            other.client.ask(fetch, 4)
            kshim.clock.advance(46)
            found = next(each for each in events(kshim, "member_left") if each["group"] == "billing")
            assert found["activity"]["last_fetch_ms"] == pytest.approx(fetched * 1_000, abs=5_000)


def test_fetches_of_processes_that_connect_at_the_same_time_are_those_of_nobody(kshim: Kshim) -> None:
    with member(kshim) as ann, member(kshim, group_id="mails") as bea, member(kshim) as one, member(kshim) as two:
        settled(ann)
        settled(bea)
        for each in (one, two):
            each.client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), 4)
        kshim.clock.advance(46)
        assert [each["activity"]["last_fetch_ms"] for each in events(kshim, "member_left")] == [None, None]


def test_fetches_over_a_connection_that_outlives_the_member_are_of_another_process(kshim: Kshim) -> None:
    """Its owner had opened it when it was assigned partitions, just when the member connected."""
    with member(kshim, group_id="mails") as other:
        settled(other)
        kshim.clock.advance(5)
        with member(kshim) as fetcher:
            with member(kshim) as ann:
                settled(ann)
                session_id = fetched_in_session(fetcher, names=True)
            wait_for_end(kshim, ann)
            kshim.clock.advance(2)
            assert fetched_in_session(fetcher, session_id, 1) == session_id
            kshim.clock.advance(44)
            found = next(each for each in events(kshim, "member_left") if each["group"] == "billing")["activity"]
    assert (found["last_fetch_ms"], found["has_fetch_session"]) == (None, None)


def test_connections_that_end_together_are_of_one_process_also_where_several_processes_started_together(
    kshim: Kshim,
) -> None:
    with member(kshim, group_id="mails") as other, member(kshim) as others_fetcher:
        with member(kshim) as ann, member(kshim) as fetcher:
            settled(ann)
            settled(other)
            fetched_in_session(others_fetcher, names=True)
            assert fetched_in_session(fetcher, fetched_in_session(fetcher, names=True), -1) == 0
            fetched = kshim.clock.now
        wait_for_end(kshim, ann)
        kshim.clock.advance(46)
        found = next(each for each in events(kshim, "member_left") if each["group"] == "billing")["activity"]
    assert found["has_fetch_session"] is False
    assert found["last_fetch_ms"] == pytest.approx(fetched * 1_000, abs=5_000)


def test_two_connections_that_speak_for_one_member_are_of_one_process(kshim: Kshim) -> None:
    with member(kshim) as ann, member(kshim) as again, member(kshim) as fetcher:
        settled(ann)
        again.identity = ann.identity
        assert again.heartbeat() == ErrorCode.NONE
        fetcher.client.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), 4)
        fetched = kshim.clock.now
        kshim.clock.advance(46)
        assert activity(kshim)["last_fetch_ms"] == pytest.approx(fetched * 1_000, abs=5_000)


def test_a_process_that_fetches_over_a_new_connection_has_not_stopped_fetching(kshim: Kshim) -> None:
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
    with member(kshim) as ann:
        settled(ann)
        with member(kshim) as fetcher:
            fetcher.client.ask(fetch, 4)
        kshim.clock.advance(20)
        assert ann.heartbeat() == ErrorCode.NONE
        with member(kshim) as fetcher:
            fetcher.client.ask(fetch, 4)
            fetched = kshim.clock.now
        kshim.clock.advance(46)
        assert activity(kshim)["last_fetch_ms"] == pytest.approx(fetched * 1_000, abs=5_000)


def test_the_software_of_a_client(kshim: Kshim) -> None:
    with member(kshim) as ann:
        ann.client.ask(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.14.0"), 3)
        settled(ann)
        assert activity(kshim, "member_joined")["software"] == "librdkafka 2.14.0"


def test_of_a_static_member_that_is_replaced_the_earlier_process(kshim: Kshim) -> None:
    with member(kshim, instance_id="till-1") as first, member(kshim, instance_id="till-1") as second:
        settled(first)
        kshim.clock.advance(5)
        with meanwhile(second.join) as joined:
            assert joined.result(timeout=10) == ErrorCode.NONE
        found = activity(kshim, "member_fenced")
        assert found["last_api"] == "SyncGroup"
        assert found["last_request_ms"] <= kshim.clock.now * 1_000 - 5_000


def test_a_member_of_the_new_protocol_that_joins_again_with_its_id_on_its_connection(kshim: Kshim) -> None:
    with epoch_member(kshim, "ann", "orders") as ann:
        kshim.clock.advance(46)
        assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert ann.heartbeat(0) is ErrorCode.NONE
        first, second = events(kshim, "member_joined")
        assert second["activity"]["connection_id"] == first["activity"]["connection_id"]


def test_the_commits_of_a_member_and_how_much_time_there_usually_is_between_two(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        began_ms = kshim.clock.now * 1_000
        for pause_s in (0, 5, 5, 0.1, 4.9, 2):
            kshim.clock.advance(pause_s)
            assert ann.commit("orders", 0, 1) == ErrorCode.NONE
        kshim.clock.advance(46)
        found = activity(kshim)
    assert found["last_commit_ms"] - began_ms == pytest.approx(17_000, abs=300)
    assert found["last_commit_ms"] - found["commit_before_ms"] == pytest.approx(2_000, abs=300)
    assert found["commit_pause_ms"] == pytest.approx(5_000, abs=300)


def test_a_member_that_has_committed_nothing_has_no_commit(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        kshim.clock.advance(46)
        found = activity(kshim)
    assert [found[name] for name in ("last_commit_ms", "commit_before_ms", "commit_pause_ms")] == [None, None, None]


def fetched_in_session(ann: Member, session_id: int = 0, epoch: int = 0, *, names: bool = False) -> int:
    """The session in which a Fetch was answered. `epoch`: 0 begins one, -1 ends it. `names`: whether it names a partition."""
    partitions = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1),) if names else ()
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=tuple(FetchTopic(topic="orders", partitions=partitions) for _ in partitions),
        session_id=session_id,
        session_epoch=epoch,
    )
    answer: FetchResponse = ann.client.ask(request, 7)
    return answer.session_id


def test_whether_a_process_had_ended_its_session_of_fetches(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        session_id = fetched_in_session(ann, names=True)
        assert session_id > 0
        assert fetched_in_session(ann, session_id, -1) == 0
        kshim.clock.advance(46)
        assert activity(kshim)["has_fetch_session"] is False


def test_whether_a_process_that_is_silent_had_a_session_of_fetches(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        assert fetched_in_session(ann, fetched_in_session(ann, names=True), 1) > 0
        kshim.clock.advance(46)
        assert activity(kshim)["has_fetch_session"] is True


@pytest.mark.parametrize("session_id", [0, 7])
def test_a_process_that_fetches_without_sessions_has_ended_none(kshim: Kshim, session_id: int) -> None:
    with member(kshim) as ann:
        settled(ann)
        assert fetched_in_session(ann, session_id, -1, names=True) == 0
        kshim.clock.advance(46)
        assert activity(kshim)["has_fetch_session"] is None


def test_a_session_of_fetches_without_partitions_ends_by_itself(kshim: Kshim) -> None:
    with member(kshim) as ann:
        settled(ann)
        session_id = fetched_in_session(ann, names=True)
        forgotten = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            topics=(),
            session_id=session_id,
            session_epoch=1,
            forgotten_topics_data=(ForgottenTopic(topic="orders", partitions=(0,)),),
        )
        assert ann.client.ask(forgotten, 7).session_id == 0
        kshim.clock.advance(46)
        assert activity(kshim)["has_fetch_session"] is None
