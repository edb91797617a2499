"""Groups over HTTP: look, wait, and do to them what tests need."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from kshim_protocol.errors import ErrorCode
from tests.control.members import Member
from tests.control.service import Service, a_service


def first(service: Service, group_id: str) -> str:
    """The address of the broker that coordinates a group."""
    service.ask("POST", f"/v1/groups/{group_id}/coordinator", {"node": 1})
    return service.bootstrap


def test_a_group_is_seen_with_its_member(service: Service) -> None:
    with Member(first(service, "seen"), "seen").join() as member:
        found = service.get("/v1/groups/seen")
        assert (found["state"], found["generation"], found["is_synced"]) == ("Stable", 1, True)
        assert [each["member_id"] for each in found["members"]] == [member.member_id]
        assert "seen" in [group["group_id"] for group in service.get("/v1/groups?limit=1000")["groups"]]
        assert [group["group_id"] for group in service.get("/v1/groups?after=see&limit=1")["groups"]] == ["seen"]


def test_a_group_that_is_not_there_is_not_found(service: Service) -> None:
    assert service.ask("GET", "/v1/groups/nobody").status == 404
    assert service.ask("POST", "/v1/groups/nobody/rebalance").status == 404
    assert service.ask("POST", "/v1/groups/nobody/expel", {"member": "m"}).status == 404


def test_to_look_at_groups_makes_nothing(tmp_path: Path) -> None:
    with a_service(tmp_path) as service:
        assert service.get("/v1/groups/nobody/wait?state=Empty")["coordinator"] == -1
        assert service.get("/v1/groups") == {"groups": [], "next": None}
        assert service.get("/v1/topics")["topics"] == []


def test_a_wait_ends_the_moment_that_it_is_true(service: Service) -> None:
    with ThreadPoolExecutor(1) as threads, Member(first(service, "awaited"), "awaited") as member:
        began = monotonic()
        answer = threads.submit(service.ask, "GET", "/v1/groups/awaited/wait?state=Stable&members=1&timeout=60")
        member.join()
        assert answer.result().json["members"][0]["member_id"] == member.member_id
        assert monotonic() - began < 30
        assert service.get("/v1/groups/awaited/wait?generation=1&timeout=1")["generation"] == 1


def test_a_wait_that_is_in_vain_says_what_happened(service: Service) -> None:
    with Member(first(service, "in-vain"), "in-vain").join():
        answer = service.ask("GET", "/v1/groups/in-vain/wait?state=Stable&members=2&timeout=0.05")
        assert answer.status == 504
        assert answer.json["detail"].startswith("group in-vain is Stable in generation 1 with 1 member after 0.05 s.")
        assert "rebalance_started" in answer.json["detail"]


@pytest.mark.parametrize(
    "query",
    ["state=stable", "members=-1", "timeout=0", "timeout=nan", "timeout=1e9", "colour=red"],
)
def test_a_wait_for_what_cannot_be_is_refused(service: Service, query: str) -> None:
    assert service.ask("GET", f"/v1/groups/g/wait?{query}").status == 400


@pytest.mark.parametrize("query", ["topic=t", "offset=1"])
def test_half_of_a_committed_offset_cannot_be_waited_for(service: Service, query: str) -> None:
    answer = service.ask("GET", f"/v1/groups/g/wait?{query}")
    assert (answer.status, answer.json["detail"]) == (422, "the query: `topic` and `offset` go together")


def test_an_expelled_member_is_told_and_the_history_says_why(service: Service) -> None:
    with Member(first(service, "expelling"), "expelling").join() as member:
        answer = service.ask(
            "POST", "/v1/groups/expelling/expel", {"member": "client-of-expelling", "reason": "too slow"}
        )
        assert answer.json == {"member_id": member.member_id}
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert service.get("/v1/groups/expelling/wait?state=Empty")["members"] == []


def test_the_session_of_one_member_ends_and_the_history_says_so(service: Service) -> None:
    with Member(first(service, "one-expires"), "one-expires").join() as member:
        assert service.ask("POST", "/v1/groups/one-expires/expire", {"member": "nobody"}).status == 404
        answer = service.ask("POST", "/v1/groups/one-expires/expire", {"member": "client-of-one-expires"})
        assert answer.json == {"member_id": member.member_id}
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert "no heartbeat came in time" in service.get("/v1/groups/one-expires/explain")["explanation"]


def test_a_fenced_instance_is_told(service: Service) -> None:
    with Member(first(service, "fencing"), "fencing", instance_id="pod-0").join() as member:
        answer = service.ask("POST", "/v1/groups/fencing/fence", {"instance_id": "pod-0"})
        assert answer.json["member_id"] not in ("", member.member_id)
        assert member.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_may_be_begun_and_is_explained(service: Service) -> None:
    with Member(first(service, "rebalancing"), "rebalancing").join() as member:
        answer = service.ask("POST", "/v1/groups/rebalancing/rebalance", {"reason": "to see what happens"})
        assert answer.json["state"] == "PreparingRebalance"
        assert member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        found = service.get("/v1/groups/rebalancing/rebalances")
        assert [(each["why"], each["outcome"]) for each in found["rebalances"]][-1] == ("admin", None)
        assert found["rebalances"][0]["who"] is not None
        explained = service.get("/v1/groups/rebalancing/explain")
        assert explained["explanation"].count("Rebalance ") == 2
        assert "rebalance_started" in explained["timeline"]


def test_a_group_may_have_another_coordinator(service: Service) -> None:
    with Member(first(service, "moving"), "moving").join() as member:
        assert service.get("/v1/groups/moving")["coordinator"] == 1
        service.ask("POST", "/v1/groups/moving/coordinator", {"node": 2})
        assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert service.get("/v1/groups/moving/wait?members=1")["coordinator"] == 2
    assert service.ask("POST", "/v1/groups/moving/coordinator", {"node": 9}).status == 404


def test_a_name_may_hold_anything(service: Service) -> None:
    with Member(first(service, "a%2Fb%20%C3%BC%00"), "a/b \u00fc\0").join():
        assert service.get("/v1/groups/a%2Fb%20%C3%BC%00")["group_id"] == "a/b \u00fc\0"
