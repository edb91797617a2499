"""The machine itself: it finds what differs, and its rules allow no more than they say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from integration.differential.allowed import Case, count_votes, load_rules, rules_for
from integration.differential.brokers import CONFIG, TOPICS, Pair, connected_pair
from integration.differential.canonical import differing_paths, id_prefix
from integration.differential.model import GroupModel
from integration.differential.run import run
from integration.differential.shrink import shortest
from integration.differential.steps import Step, dump_steps, load_steps
from integration.support.kshim import KshimProcess
from kshim_protocol.group_requests import GroupMember
from kshim_protocol.messages.join_group import JoinGroupRequest


@pytest.fixture
def unequal_pair(tmp_path: Path) -> Iterator[Pair]:
    """Two kshims; in the second, in Kafka's place, a group holds one member less."""
    with ExitStack() as stack:
        brokers = [
            KshimProcess(tmp_path / size, config={**CONFIG, "group.max.size": size}, topics=TOPICS)
            for size in ("4", "3")
        ]
        for broker in brokers:
            broker.start()
            stack.callback(broker.stop)
        yield connected_pair(*(broker.bootstrap for broker in brokers))


def test_a_broker_that_behaves_differently_is_found_and_the_transcript_is_short(unequal_pair: Pair) -> None:
    totals = run(unequal_pair, seed=2, sequences=50, requests=50, at_once=2, stop_after=1)
    assert totals.found
    shrunk = shortest(unequal_pair, load_rules(), totals.found[0].steps, limit_s=8)
    assert shrunk is not None
    steps, text = shrunk
    assert "GROUP_MAX_SIZE_REACHED" in text
    assert sum(step.verb == "join" for step in steps) >= 4, "four members are needed"
    assert len(steps) < len(totals.found[0].steps)


def test_steps_survive_being_written_down() -> None:
    steps = [Step("join", "g1", "a", v=9, session=500, protocols=[["range", "sub:t"]]), Step("wait")]
    assert [str(step) for step in load_steps(dump_steps(steps))] == [
        "join a v=9 session=500 protocols=range:sub:t",
        "wait",
    ]


def join(*names: str, member_id: str = "") -> JoinGroupRequest:
    """A Join that offers these protocols."""
    return GroupMember("g", member_id).join(
        9, [(name, b"") for name in names], session_timeout_ms=1, rebalance_timeout_ms=-1
    )


def joined(member: str, leader: str, *, protocol: str = "range", error: int = 0) -> dict[str, Any]:
    """The answer to a Join in a group of a and b."""
    members = [{"member_id": id_} for id_ in ("a", "b")] if member == leader else []
    return {"error_code": error, "member_id": member, "leader": leader, "protocol_name": protocol, "members": members}


def allowed(
    kshim: Any, kafka: Any, *, later: tuple[Any, ...] = (), leader: str | None = None, api: str = "JoinGroup"
) -> list[str]:
    """The ids of the rules that allow it; [] when it is a difference."""
    group = GroupModel("g1")
    group.leader = leader
    group.protocols = {"a": ["range", "sticky"], "b": ["sticky", "range"]}
    case = Case(api, group, join("range", member_id="a"), later, kshim, kafka)
    both = isinstance(kshim, dict) and isinstance(kafka, dict)
    rules = rules_for(load_rules(), case, list(differing_paths(kshim, kafka)) if both else ["*"])
    return [rule.id for rule in rules or ()]


def test_another_leader_is_allowed_when_the_old_one_has_gone_and_only_then() -> None:
    kshim, kafka = joined("a", "a"), joined("a", "b")
    assert allowed(kshim, kafka, leader="c") == ["arbitrary-leader"]
    assert allowed(kshim, kafka, leader="a") == []
    assert allowed(kshim, kafka, leader=None) == []
    assert allowed(kshim, {**kafka, "leader": "nobody", "generation_id": 2}, leader="c") == []


def test_members_for_a_follower_are_never_allowed() -> None:
    assert allowed({**joined("a", "b"), "members": [{"member_id": "a"}]}, joined("a", "a"), leader="c") == []


def test_another_protocol_is_allowed_when_votes_tie() -> None:
    assert allowed(joined("a", "a"), joined("a", "a", protocol="sticky"), leader="a") == ["tied-vote"]
    assert allowed(joined("a", "a"), joined("a", "a", protocol="roundrobin"), leader="a") == []


def test_an_answer_kafka_does_not_give_is_allowed_for_a_superseded_request_only() -> None:
    refused = {"error_code": 27, "member_id": "a"}
    assert allowed(refused, None, later=(join("range", member_id="a"),)) == ["superseded-request"]
    assert allowed(refused, None, later=()) == []
    assert allowed(refused, None, later=(join("range", member_id="b"),)) == []
    assert allowed({**refused, "error_code": 0}, None, later=(join("range", member_id="a"),)) == []
    assert allowed(None, refused, later=(join("range", member_id="a"),)) == []


def test_a_closed_connection_is_never_allowed() -> None:
    assert allowed("closed the connection", None, later=(join("range", "range", member_id="a"),)) == []
    assert allowed(None, "closed the connection", later=(join("range", "range", member_id="a"),)) == []


def test_votes_are_counted_for_the_first_name_that_all_offer() -> None:
    assert count_votes([["x", "a", "b"], ["b", "a"], ["a", "b"]]) == {"a": 2, "b": 1}
    assert count_votes([]) == {}


def test_a_member_id_is_known_by_what_stands_before_its_uuid() -> None:
    assert id_prefix("my-app-1-123e4567-e89b-12d3-a456-426614174000") == "my-app-1"


def test_every_rule_belongs_to_a_difference_that_users_are_told_of() -> None:
    listed = tomllib.loads((Path(__file__).resolve().parents[2] / "docs" / "differences.toml").read_text("utf-8"))
    named = {test for difference in listed["difference"] for test in difference["tests"]}
    assert {f"differential:{rule.id}" for rule in load_rules()} <= named
