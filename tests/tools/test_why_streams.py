"""`kshim why` of a streams group on a running broker: what is told of members is what was done to them."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from kshim.cli.main import main
from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.api_versions import ApiVersionsRequest
from kshim_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from tests.coordinator.groups.streams.world import stateful

SESSION_S = 45
HEARTBEAT_S = 5
RESET = struct.pack("ii", 1, 0)
CONFIG = {
    "kshim.history.topic.enable": "true",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}


@pytest.fixture
def kshim() -> Iterator[Kshim]:
    with Kshim(topics={"orders": 4}, clock="manual", config=CONFIG) as found:
        yield found


class Thread:
    """A stream thread in a process of its own. It runs what it was told when it reported last."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.epoch = 0
        self.told: tuple[tuple[TaskIds, ...], tuple[TaskIds, ...]] = ((), ())
        self.active: tuple[TaskIds, ...] = ()
        self.standby: tuple[TaskIds, ...] = ()

    def heartbeat(self, *, is_stuck: bool = False) -> None:
        """One. A thread that is stuck in its application sends it all the same, and says nothing of its tasks."""
        request = StreamsGroupHeartbeatRequest(
            group_id="app",
            member_id=self.name,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=60_000,
            topology=None if self.epoch else stateful("orders"),
            active_tasks=None if is_stuck else self.active,
            standby_tasks=None if is_stuck else self.standby,
            warmup_tasks=None if is_stuck else (),
            process_id=self.name,
        )
        answer = self.client.ask(request, 1)
        assert answer.error_code == ErrorCode.NONE
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.told = answer.active_tasks, answer.standby_tasks
        if not is_stuck:
            self.active, self.standby = self.told

    @property
    def runs(self) -> set[str]:
        """The names of its active tasks."""
        return {f"{each.subtopology_id}_{index}" for each in self.active for index in each.partitions}

    def is_killed(self) -> None:
        """The process is gone, and the system resets its connection."""
        self.client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.client.close()


@contextmanager
def thread(kshim: Kshim, name: str) -> Iterator[Thread]:
    host, _, port = kshim.bootstrap_servers.rpartition(":")
    with closing(Client(host, int(port), client_id=name)) as client:
        yield Thread(client, name)


def live(kshim: Kshim, seconds: int, *threads: Thread) -> None:
    """Heartbeats of threads for a time. What has to be given up is given up at once."""
    for _ in range(seconds // HEARTBEAT_S):
        kshim.clock.advance(HEARTBEAT_S)
        for each in threads:
            each.heartbeat()
            each.heartbeat()


def why(kshim: Kshim, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The incidents of the group but for its beginning; what was done has been written by then."""
    kshim.clock.advance(HEARTBEAT_S)
    assert main(["why", "app", "--bootstrap-server", kshim.bootstrap_servers, "--output", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["incidents"]
    return [each for each in found if each["cause"] not in ("one_by_one_start", "scale_up")]


def test_a_process_that_is_killed_is_named_with_where_its_tasks_went(
    kshim: Kshim, capsys: pytest.CaptureFixture[str]
) -> None:
    with thread(kshim, "one") as one, thread(kshim, "two") as two:
        one.heartbeat()
        two.heartbeat()
        live(kshim, 60, one, two)
        ran = one.runs
        assert len(ran) == 2
        one.is_killed()
        wait_for_end(kshim, two)
        live(kshim, SESSION_S + 60, two)
        assert two.runs >= ran
        [incident] = why(kshim, capsys)
    assert (incident["cause"], incident["clients"]) == ("killed", ["one@127.0.0.1"])
    [effect] = incident["effects"]
    assert {each["task"] for each in effect["moved"]} == ran
    assert {(each["from_client"], each["to_client"]) for each in effect["moved"]} == {
        ("one@127.0.0.1", "two@127.0.0.1")
    }
    assert all(each["had_state"] for each in effect["moved"]), "each kept the state of the other's tasks"
    assert all(SESSION_S <= each["unowned_ms"] / 1_000 <= SESSION_S + HEARTBEAT_S for each in effect["moved"])
    assert "group.streams.session.timeout.ms" in incident["advice"]


def wait_for_end(kshim: Kshim, other: Thread) -> None:
    """Return when the broker has noticed that the connection of `one` has ended; others are served meanwhile."""
    for _ in range(10_000):
        other.client.ask(ApiVersionsRequest(), 3)
        found = kshim.call(kshim.cluster.client_activity.of, "one", "one", "/127.0.0.1")
        if found is not None and found.closed_by is not None:
            return
    pytest.fail("the end of the connection was never noticed")


def test_a_member_that_is_slow_to_give_up_tasks_is_named_with_how_long_the_others_waited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = {**CONFIG, "group.streams.num.standby.replicas": "0"}
    with (
        Kshim(topics={"orders": 4}, clock="manual", config=config) as kshim,
        thread(kshim, "one") as one,
        thread(kshim, "two") as two,
        thread(kshim, "three") as three,
    ):
        one.heartbeat()
        two.heartbeat()
        live(kshim, 60, one, two)
        three.heartbeat()
        for _ in range(6):
            kshim.clock.advance(HEARTBEAT_S)
            one.heartbeat(is_stuck=True)
            two.heartbeat(is_stuck=True)
            three.heartbeat()
        live(kshim, 60, one, two, three)
        (late,) = (each for each in (one, two) if len(each.runs) == 1)  # the other one had nothing to give up
        assert len(three.runs) == 1
        [incident] = why(kshim, capsys)
    assert (incident["cause"], incident["clients"]) == ("slow_poll", [f"{late.name}@127.0.0.1"])
    [effect] = incident["effects"]
    assert effect["last_wait_ms"] >= 25_000
    assert [(each["task"], each["to_client"], each["had_state"]) for each in effect["moved"]] == [
        (three.runs.pop(), "three@127.0.0.1", False)
    ]
