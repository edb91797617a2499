"""Heartbeat: checks, and what each state answers."""

from __future__ import annotations

import pytest

from kshim_protocol.errors import ErrorCode
from tests.coordinator.peers import a_group
from tests.coordinator.rules import covers


@covers("check.heartbeat.empty-group-id")
def test_a_heartbeat_needs_a_group_id() -> None:
    assert a_group().peer("a", group_id="").heartbeat() is ErrorCode.INVALID_GROUP_ID


@covers("heartbeat.unknown-group", "heartbeat.unknown-member")
def test_only_members_heartbeat() -> None:
    sim = a_group()
    assert sim.peer("nobody").heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    sim.empty()
    assert sim["gone"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    sim.stable("a")
    pending = sim.peer("p")
    pending.member_id = pending.send_join().reply.member_id
    assert pending.heartbeat(generation_id=3) is ErrorCode.UNKNOWN_MEMBER_ID


@covers("heartbeat.fenced-instance")
def test_an_instance_id_must_be_the_members_own() -> None:
    sim = a_group().stable("a", "b", static=["a"])
    sim["b"].instance_id = "a-instance"
    assert sim["b"].heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    sim["b"].instance_id = "unheard-of"
    assert sim["b"].heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@covers("heartbeat.other-generation")
@pytest.mark.parametrize("generation_id", [-1, 0, 2, 99])
def test_the_generation_must_be_the_groups(generation_id: int) -> None:
    assert a_group().stable("a")["a"].heartbeat(generation_id=generation_id) is ErrorCode.ILLEGAL_GENERATION


@covers("heartbeat.preparing", "heartbeat.completing", "heartbeat.stable", "session.heartbeat")
@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("stable", ErrorCode.NONE),
        ("completing", ErrorCode.NONE),
        ("preparing", ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_every_state_with_members_restarts_the_session_and_preparing_asks_to_rejoin(
    state: str, answer: ErrorCode
) -> None:
    sim = getattr(a_group(), state)("a", "b")
    sim.pass_ms(9_000)
    assert sim["b"].heartbeat() is answer
    assert sim.deadline_ms("session", "g", sim["b"].member_id) == 10_000


@covers("heartbeat.failed-check")
def test_a_refused_heartbeat_does_not_keep_the_session_alive() -> None:
    sim = a_group().stable("a")
    sim.pass_ms(4_000)
    assert sim["a"].heartbeat(generation_id=99) is ErrorCode.ILLEGAL_GENERATION
    assert sim.deadline_ms("session", "g", sim["a"].member_id) == 6_000
