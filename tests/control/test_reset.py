"""A reset over HTTP: everything is as at the start, at the same addresses."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kshim.tools.client import BrokerGone
from tests.control.members import Member
from tests.control.service import Service, a_service
from tests.control.test_history import following


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Service]:
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\non = "Fetch"\ndo = "hang"\nwhen = "once"\nname = "of the start"\n')
    with a_service(tmp_path, "--brokers=2", "--topic=orders:3", f"--faults={faults}") as service:
        yield service


def test_topics_groups_and_faults_are_as_at_the_start(cluster: Service) -> None:
    before = cluster.get("/ready")
    for _ in range(3):
        cluster.ask("POST", "/v1/topics", {"name": "invoices"})
        cluster.ask("POST", "/v1/topics/orders/records", {"records": [{"value": "v"}]})
        cluster.ask("POST", "/v1/faults", {"on": "Heartbeat", "do": "hang", "when": "once"})
        cluster.ask("POST", "/v1/groups/gone/coordinator", {"node": 1})
        cluster.ask("POST", "/v1/nodes/2/stop")
        with Member(cluster.bootstrap, "gone").join() as member:
            answer = cluster.ask("POST", "/v1/reset")
            assert answer.status == 200
            assert answer.json["bootstrap_servers"] == before["bootstrap_servers"]
            with pytest.raises(BrokerGone):
                member.heartbeat()
        assert [topic["name"] for topic in cluster.get("/v1/topics")["topics"]] == ["orders"]
        assert [each["end_offset"] for each in cluster.get("/v1/topics/orders")["partitions"]] == [0, 0, 0]
        assert cluster.get("/v1/groups")["groups"] == []
        assert cluster.get("/v1/history")["events"] == []
        assert [fault["rule"]["name"] for fault in cluster.get("/v1/faults")["faults"]] == ["of the start"]
        assert [node["is_live"] for node in cluster.get("/v1/nodes")["nodes"]] == [True, True]


def test_who_waits_for_something_of_them_waits_no_longer(cluster: Service) -> None:
    with ThreadPoolExecutor(1) as threads, following(cluster, "/v1/history/stream?after=0") as events:
        waiting = threads.submit(cluster.ask, "GET", "/v1/groups/never/wait?members=1&timeout=60")
        with Member(cluster.bootstrap, "seen") as member:
            cluster.ask("POST", "/v1/groups/seen/coordinator", {"node": 1})
            member.join()
        assert next(events)["event"] == "member_joined"
        while cluster.ask("POST", "/v1/reset").status != 200 or not waiting.done():
            pass
        assert [event["event"] for event in events][-1:] != ["gap"]
    assert (waiting.result().status, waiting.result().json["detail"]) == (503, "the brokers were reset")


def test_the_process_ends_as_usual_after_a_reset(cluster: Service) -> None:
    cluster.ask("POST", "/v1/reset")
    assert cluster.process.end(signal.SIGTERM) == (0, "")


@pytest.mark.parametrize("option", ["--data-dir", "--record"])
def test_brokers_that_keep_something_are_not_reset(tmp_path: Path, option: str) -> None:
    with a_service(tmp_path, f"{option}={tmp_path / 'kept'}") as service:
        answer = service.ask("POST", "/v1/reset")
        assert (answer.status, answer.json["detail"]) == (409, f"brokers with {option} cannot be reset")
