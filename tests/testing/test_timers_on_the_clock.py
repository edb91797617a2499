"""Whatever takes long by the brokers' clock happens at once when it is advanced: each kind of timer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshim.replay.replay import replay
from kshim.testing import Fired, Kshim
from kshim.tools.client import BrokerGone, Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.group_requests import Committed, GroupMember
from kshim_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kshim_protocol.messages.init_producer_id import InitProducerIdRequest
from kshim_protocol.messages.list_transactions import ListTransactionsRequest
from kshim_protocol.messages.metadata import MetadataRequest

PATIENCE_S = 20
DAY_S = 86_400
CONSUMER = [("range", b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")]


@contextlib.contextmanager
def client_of(kshim: Kshim, client_id: str = "test", broker: int = 1) -> Iterator[Client]:
    host, _, port = kshim.address_of(broker).rpartition(":")
    client = Client(host, int(port), client_id=client_id, timeout_s=PATIENCE_S)
    try:
        yield client
    finally:
        client.close()


def noticed(fired: list[Fired]) -> list[Fired]:
    """Those of timers that clients can notice."""
    return [each for each in fired if not each.is_routine]


def keys(fired: list[Fired]) -> list[tuple[str, tuple[str, ...]]]:
    """The same, without the time."""
    return [each[:2] for each in noticed(fired)]


@contextlib.contextmanager
def two_clients(kshim: Kshim) -> Iterator[tuple[Client, Client]]:
    with client_of(kshim, "one") as one, client_of(kshim, "two") as two:
        yield one, two


def a_member(client: Client, *, session_s: int = 1_800, rebalance_s: int = 300) -> GroupMember:
    """One that has sent its first JoinGroup, whose answer is still to come."""
    member = GroupMember("g")
    answer = client.ask(member.join(5, CONSUMER, session_timeout_ms=session_s * 1_000), 5)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member = member._replace(member_id=answer.member_id)
    client.send(
        member.join(5, CONSUMER, session_timeout_ms=session_s * 1_000, rebalance_timeout_ms=rebalance_s * 1_000), 5
    )
    return member


def joined(client: Client, member: GroupMember) -> GroupMember:
    """Its answer has come."""
    answer = client.receive(PATIENCE_S)
    assert answer.error_code == ErrorCode.NONE
    return member._replace(generation_id=answer.generation_id)


def a_group_of_one(kshim: Kshim, client: Client, *, session_s: int = 45) -> GroupMember:
    """Stable."""
    kshim.coordinator_of("g")
    member = joined(client, a_member(client, session_s=session_s))
    answer = client.ask(member.sync(3, [(member.member_id, b"")]), 3)
    assert answer.error_code == ErrorCode.NONE
    return member


def test_a_session() -> None:
    with Kshim(clock="manual") as kshim, client_of(kshim) as client:
        member = a_group_of_one(kshim, client, session_s=45)
        before = kshim.clock.now
        assert noticed(kshim.clock.advance(44.999)) == []
        assert kshim.group("g").state == "Stable"
        (fired,) = noticed(kshim.clock.advance(1))
        assert fired == ("session", ("g", member.member_id), before + 45)
        assert kshim.group("g").state == "Empty"
        assert client.ask(member.heartbeat(3), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_that_came_before_counts() -> None:
    with Kshim(clock="manual") as kshim, client_of(kshim) as client:
        member = a_group_of_one(kshim, client, session_s=45)
        kshim.clock.advance(44)
        client.send(member.heartbeat(3), 3)
        assert noticed(kshim.clock.advance(44)) == []
        assert client.receive(PATIENCE_S).error_code == ErrorCode.NONE
        assert noticed(kshim.clock.advance(1))[0].key == ("g", member.member_id)


def test_the_initial_delay_of_a_group() -> None:
    config = {"group.initial.rebalance.delay.ms": "60000"}
    with Kshim(clock="manual", config=config) as kshim, client_of(kshim) as client:
        kshim.coordinator_of("g")
        member = a_member(client)
        assert noticed(kshim.clock.advance(59)) == []
        assert keys(kshim.clock.advance(1)) == [("join", ("g",))]
        assert joined(client, member).generation_id == 1


def test_a_rebalance_that_a_member_does_not_join() -> None:
    with Kshim(clock="manual") as kshim, two_clients(kshim) as (one, two):
        first = a_group_of_one(kshim, one, session_s=1_800)
        second = a_member(two, rebalance_s=300)
        assert noticed(kshim.clock.advance(299)) == []
        assert keys(kshim.clock.advance(1)) == [("join", ("g",))]
        assert joined(two, second).generation_id == 2
        assert one.ask(first.heartbeat(3), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert [member.client_id for member in kshim.group("g").members] == ["two"]


def test_a_leader_that_never_assigns() -> None:
    config = {"group.initial.rebalance.delay.ms": "1000"}
    with Kshim(clock="manual", config=config) as kshim, two_clients(kshim) as (one, two):
        kshim.coordinator_of("g")
        members = [a_member(client, rebalance_s=300) for client in (one, two)]
        kshim.clock.advance(2)  # who comes meanwhile prolongs it
        _, follower = (joined(client, member) for client, member in zip((one, two), members, strict=True))
        two.send(follower.sync(3), 3)
        assert keys(kshim.clock.advance(300)) == [("sync", ("g",))]
        assert two.receive(PATIENCE_S).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert kshim.group("g").rebalances[-1].why == "sync_timeout"


def test_a_wait_of_fetch() -> None:
    with Kshim(topics={"orders": 1}, clock="manual") as kshim, client_of(kshim) as client:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = (FetchTopic(topic="orders", partitions=(wanted,)),)
        client.ask(MetadataRequest(topics=None), 12)  # the broker has accepted the connection
        client.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)
        before = kshim.clock.now
        assert noticed(kshim.clock.advance(599)) == []
        assert client.receive(0) is None
        assert noticed(kshim.clock.advance(1)) == [("fetch", ("orders-0",), before + 600)]
        assert client.receive(PATIENCE_S).responses[0].partitions[0].high_watermark == 0


def test_an_open_transaction_and_an_idle_transactional_id() -> None:
    with Kshim(topics={"orders": 1}, clock="manual") as kshim, client_of(kshim) as client:
        kshim.call(kshim.cluster.transactions.topic)
        made = client.ask(InitProducerIdRequest(transactional_id="billing", transaction_timeout_ms=60_000), 4)
        added = client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="billing",
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name="orders", partitions=(0,)),),
            ),
            3,
        )
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.NONE
        assert noticed(kshim.clock.advance(59)) == []
        assert ("transaction", ("billing",)) in keys(kshim.clock.advance(1))
        (state,) = client.ask(ListTransactionsRequest(state_filters=(), producer_id_filters=()), 0).transaction_states
        assert (state.transactional_id, state.transaction_state) == ("billing", "CompleteAbort")
        assert ("transaction", ("billing",)) in keys(kshim.clock.advance(7 * DAY_S))
        with client_of(kshim) as later:
            assert (
                later.ask(ListTransactionsRequest(state_filters=(), producer_id_filters=()), 0).transaction_states == ()
            )


def test_retention() -> None:
    with Kshim(clock="manual") as kshim:
        kshim.create_topic("orders", 1, {"retention.ms": "3600000"})
        kshim.produce("orders", "one", "two")
        kshim.clock.advance(3_600)
        assert [record.value for record in kshim.records("orders")] == [b"one", b"two"]
        assert "retention" in [fired.kind for fired in kshim.clock.advance(301)]
        assert kshim.records("orders") == []


def test_compaction() -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0"}
    with Kshim(clock="manual") as kshim:
        kshim.create_topic("prices", 1, config)
        kshim.produce("prices", "1", "2", "3", key="tea")
        kshim.clock.advance(61)
        kshim.produce("prices", "4", key="coffee")
        assert "log_cleaner" in [fired.kind for fired in kshim.clock.advance(60)]
        assert [record.value for record in kshim.records("prices")] == [b"3", b"4"]


def test_the_expiry_of_offsets() -> None:
    with Kshim(topics={"orders": 1}, clock="manual") as kshim, client_of(kshim) as client:
        kshim.coordinator_of("g")
        answer = client.ask(GroupMember("g").commit(7, [("orders", [Committed(0, 5)])]), 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        kshim.clock.advance(7 * DAY_S - 1)
        assert kshim.offsets("g") == {("orders", 0): 5}
        assert "expiry" in [fired.kind for fired in kshim.clock.advance(601)]
        assert kshim.offsets("g") == {}


def test_a_sync_of_logs(tmp_path: Path) -> None:
    with Kshim(topics={"orders": 1}, data_dir=tmp_path, clock="manual") as kshim:
        kshim.produce("orders", "one")

        def durable_offset() -> int:
            partition = kshim.cluster.topics.partition("orders", 0)
            assert partition is not None
            return partition.log.durable_offset

        assert kshim.call(durable_offset) == 0
        assert "log_sync" in [fired.kind for fired in kshim.clock.advance(0.1)]
        assert kshim.call(durable_offset) == 1


def test_an_idle_connection() -> None:
    with Kshim(clock="manual") as kshim, client_of(kshim) as client:
        client.ask(MetadataRequest(topics=None), 12)
        kshim.clock.advance(590)
        client.ask(MetadataRequest(topics=None), 12)
        assert keys(kshim.clock.advance(640)) == [("idle_connection", ("/127.0.0.1",))]
        with pytest.raises(BrokerGone):
            client.ask(MetadataRequest(topics=None), 12)


def test_a_client_that_never_authenticates() -> None:
    with Kshim(users={"u": "pw"}, clock="manual") as kshim, client_of(kshim) as client:
        client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
        assert ("authentication", ("/127.0.0.1",)) in keys(kshim.clock.advance(30))
        with pytest.raises(BrokerGone):
            client.receive(PATIENCE_S)


def test_groups_that_are_still_being_loaded_are_there_when_the_clock_moves(tmp_path: Path) -> None:
    with Kshim(data_dir=tmp_path, clock="manual") as kshim, client_of(kshim) as client:
        a_group_of_one(kshim, client, session_s=45)
    with Kshim(3, data_dir=tmp_path, clock="manual") as kshim:
        assert [fired.kind for fired in noticed(kshim.clock.advance(45))] == ["session"]
        assert kshim.group("g").state == "Empty"


def test_nodes_of_a_cluster_share_one_clock() -> None:
    with Kshim(3, clock="manual") as kshim:
        coordinator = kshim.coordinator_of("g")
        with client_of(kshim, broker=coordinator) as client:
            member = a_group_of_one(kshim, client, session_s=45)
            kshim.stop_node(coordinator)
            assert keys(kshim.clock.advance(45)) == [("session", ("g", member.member_id))]


def test_with_a_manual_clock_nothing_happens_by_itself() -> None:
    config = {"group.initial.rebalance.delay.ms": "1"}
    with Kshim(clock="manual", config=config) as kshim, client_of(kshim) as client:
        kshim.coordinator_of("g")
        member = a_member(client)
        assert client.receive(0.05) is None  # a delay of a millisecond
        kshim.clock.advance(0.001)
        assert joined(client, member).generation_id == 1


def test_members_that_are_kept_alive_outlast_the_others() -> None:
    config = {"group.initial.rebalance.delay.ms": "1000"}
    with Kshim(clock="manual", config=config) as kshim, two_clients(kshim) as (one, two):
        kshim.coordinator_of("g")
        waiting = [a_member(client, session_s=45) for client in (one, two)]
        kshim.clock.advance(2)
        first, second = (joined(client, member) for client, member in zip((one, two), waiting, strict=True))
        for client, member in ((one, first), (two, second)):
            client.send(member.sync(3, [(each.member_id, b"") for each in waiting]), 3)
        for client in (one, two):
            assert client.receive(PATIENCE_S).error_code == ErrorCode.NONE
        # After 45 s the second has died, and a day later the first has still not been asked to rejoin.
        fired = kshim.clock.advance(DAY_S, keep_alive="one")
        assert ("session", ("g", second.member_id)) in keys(fired)
        with client_of(kshim, "one") as again:  # its idle connection was closed
            assert again.ask(first.heartbeat(3), 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert [member.client_id for member in kshim.group("g").members] == ["one"]
        assert noticed(kshim.clock.advance(44)) == []
        with pytest.raises(LookupError, match="no group has a member 'two' to be kept alive; the members are: one-"):
            kshim.clock.advance(1, keep_alive=["one", "two"])
        kshim.clock.advance(DAY_S, keep_alive="o*")
        assert len(kshim.group("g").members) == 1


def test_one_member_expires_while_the_clock_stands_still() -> None:
    with Kshim(clock="manual") as kshim, client_of(kshim, "one") as client:
        member = a_group_of_one(kshim, client, session_s=45)
        before = kshim.clock.now
        with pytest.raises(LookupError, match="no member 'two'"):
            kshim.group("g").expire("two")
        assert kshim.group("g").expire("one") == member.member_id
        assert (kshim.group("g").state, kshim.clock.now) == ("Empty", before)
        assert kshim.group("g").rebalances[-1].why == "session_timeout"


def test_what_was_done_with_the_clock_is_done_again_in_a_replay(tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": "1000"}
    with (
        Kshim(clock="manual", config=config, record=tmp_path / "session.rec") as kshim,
        two_clients(kshim) as (one, two),
    ):
        kshim.coordinator_of("g")
        waiting = [a_member(client, session_s=45) for client in (one, two)]
        kshim.clock.advance(2)
        first, second = (joined(client, member) for client, member in zip((one, two), waiting, strict=True))
        kshim.clock.advance(100, keep_alive="*")
        assert [one.ask(first.heartbeat(3), 3).error_code, two.ask(second.heartbeat(3), 3).error_code] == [0, 0]
        kshim.clock.advance(100, keep_alive="one")
        assert two.ask(second.heartbeat(3), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        kshim.group("g").expire("one")
        assert one.ask(first.heartbeat(3), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    with (tmp_path / "session.rec").open("rb") as file:
        result = replay(file)
    assert (result.differences, result.notes) == ([], [])
    assert result.request_count > 6
