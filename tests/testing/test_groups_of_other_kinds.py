"""`Kshim.group` of streams and share groups: what they are is seen, and their members' sessions are in the test's hands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.coordinator.groups.streams.world import stateless


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    config = {"group.streams.initial.rebalance.delay.ms": "0"}
    with Kshim(topics={"orders": 3, "audit": 1}, clock="manual", config=config) as found:
        yield found


@pytest.fixture
def client(kshim: Kshim) -> Iterator[Client]:
    host, _, port = kshim.bootstrap_servers.rpartition(":")
    found = Client(host, int(port), client_id="app")
    yield found
    found.close()


def join_streams(client: Client, member_id: str) -> None:
    request = StreamsGroupHeartbeatRequest(
        group_id="app",
        member_id=member_id,
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=stateless("orders", "audit"),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id=member_id,
    )
    assert client.ask(request, 1).error_code == ErrorCode.NONE


def join_share(client: Client, member_id: str) -> None:
    request = ShareGroupHeartbeatRequest(
        group_id="queue", member_id=member_id, member_epoch=0, subscribed_topic_names=("orders",)
    )
    assert client.ask(request, 1).error_code == ErrorCode.NONE


def test_a_streams_group_is_seen_with_what_its_tasks_read(kshim: Kshim, client: Client) -> None:
    join_streams(client, "m")
    group = kshim.group("app").wait_stable(members=1)
    assert (group.state, group.generation, group.protocol) == ("Stable", 2, "sticky")
    assert group.assignment == {"m": (("audit", 0), ("orders", 0), ("orders", 1), ("orders", 2))}


def test_a_share_group_is_seen_with_its_members(kshim: Kshim, client: Client) -> None:
    join_share(client, "m")
    group = kshim.group("queue")
    assert (group.state, group.protocol, [each.member_id for each in group.members]) == ("Stable", "simple", ["m"])


def test_their_sessions_expire_and_are_kept_as_a_test_says(kshim: Kshim, client: Client) -> None:
    join_streams(client, "m")
    join_share(client, "n")
    kshim.clock.advance(100, keep_alive="*")
    assert [len(kshim.group(name).members) for name in ("app", "queue")] == [1, 1]
    assert kshim.group("app").expire("m") == "m"
    kshim.clock.advance(100)
    assert [kshim.group(name).state for name in ("app", "queue")] == ["Empty", "Empty"]


def test_what_is_not_possible_with_them_says_so(kshim: Kshim, client: Client) -> None:
    join_streams(client, "m")
    with pytest.raises(LookupError, match="group app is a streams group"):
        kshim.group("app").trigger_rebalance()
