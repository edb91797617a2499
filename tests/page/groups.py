"""A group with a member that let others wait, then was killed, as values."""

from __future__ import annotations

from typing import Any

from kshim.explain.facts import Activity, Fact, Kind, Member, Phases
from kshim.page import GroupNow, GroupRow, MemberNow, OffsetNow, Owners, Site, Turn, Wait
from kshim.page.from_facts import headline

START = 1_795_000_000_000
SECOND = 1_000
MINUTE = 60 * SECOND

FAST = Member("fast-1", None, "bill-1", "10.0.0.1")
SLOW = Member("slow-2", None, "bill-2", "10.0.0.2")
HOSTILE = "<script>alert(1)</script>\u202e'\"&\u05d0\u05d1"


def an_incident(group: str = "billing", **others: Any) -> dict[str, Any]:
    return {
        "cause": "slow_poll", "subject": "client", "groups": [group], "clients": ["bill-2@10.0.0.2"], "host": "10.0.0.2",
        "from_ms": START + MINUTE, "to_ms": START + MINUTE + 40 * SECOND, "confidence": 0.97, "basis": "observed",
        "sentence": "bill-2@10.0.0.2 did not call poll() in time while it processed records.",
        "advice": "Raise max.poll.interval.ms above the time of the slowest batch, or lower max.poll.records.",
        "would_tell": None, "evidence": [{"text": "it went on sending heartbeats", "weight": "must"}], "sources": ["event x-5"],
        "alternatives": [],
        "effects": [
            {
                "group": group, "rebalance_count": 1, "join_ms": 40_000, "sync_ms": 80, "last_to_join": "bill-2@10.0.0.2",
                "last_wait_ms": 40_000, "unowned_ms": None, "is_observed": True, "has_epochs": False,
            }
        ],
    } | others  # fmt: skip


def a_turn(number: int, began_ms: int, *, join_ms: int = 20, sync_ms: int = 10, **others: Any) -> Turn:
    fields: dict[str, Any] = {
        "number": number, "began_ms": began_ms, "joined_ms": began_ms + join_ms, "ended_ms": began_ms + join_ms + sync_ms,
        "outcome": "completed", "generation": number, "member_count": 2, "phases": (("JOIN", join_ms), ("SYNC", sync_ms)),
        "explanation": "Somebody joined.", "protocol": "range",
    }  # fmt: skip
    return Turn(**(fields | others))


def billing(name: str = "billing", **others: Any) -> GroupNow:
    """Two members; a third joins after a minute, and one of the two comes back to poll only 40 s later; then it is killed."""
    late = START + MINUTE
    dead = START + 4 * MINUTE
    third = Member("third-3", None, "bill-3", "10.0.0.3")
    waits = (
        Wait("fast-1", "bill-1@10.0.0.1", 900, False),
        Wait("slow-2", "bill-2@10.0.0.2", 40_000, False),
        Wait("third-3", "bill-3@10.0.0.3", 0, True),
    )
    silent = Activity("x/1", START, dead - 45 * SECOND, "reset", dead - 45 * SECOND, "Fetch", dead - 46 * SECOND, None)
    facts = [
        Fact(START, name, Kind.JOINED, "event x-1", FAST),
        Fact(START + 5, name, Kind.JOINED, "event x-2", SLOW),
        Fact(START + 30, name, Kind.COMPLETED, "event x-3", phases=Phases(20, 10, "range", "fast-1", None, None)),
        Fact(late, name, Kind.JOINED, "event x-4", third),
        Fact(late + 40_080, name, Kind.COMPLETED, "event x-5", phases=Phases(40_000, 80, "range", "fast-1", SLOW, 40_000)),
        Fact(dead, name, Kind.EXPIRED, "event x-6", SLOW, activity=silent),
        Fact(dead + 3_030, name, Kind.COMPLETED, "event x-7", phases=Phases(3_000, 30, "range", "fast-1", FAST, 3_000)),
    ]  # fmt: skip
    explanation = "bill-3 joined. It took 40.080 s and ended in generation 2 with 3 members."
    turns = [
        a_turn(1, START),
        a_turn(2, late, join_ms=40_000, sync_ms=80, waits=waits, leader_id="fast-1", explanation=explanation),
        a_turn(3, dead, join_ms=3_000, sync_ms=30, waits=(Wait("fast-1", "bill-1@10.0.0.1", 3_000, False), Wait("third-3", "bill-3@10.0.0.3", 2_900, False)),
               explanation="The session of bill-2 expired: no heartbeat came in time."),
    ]  # fmt: skip
    members = [
        MemberNow("fast-1", "bill-1@10.0.0.1", "10.0.0.1", None, (("orders", 0), ("orders", 1)), True, 45_000),
        MemberNow("third-3", "bill-3@10.0.0.3", "10.0.0.3", None, (("orders", 2),), False, 45_000),
    ]
    owners = [
        Owners(START + 30, {("orders", 0): "fast-1", ("orders", 1): "slow-2", ("orders", 2): "slow-2"}),
        Owners(late + 40_080, {("orders", 0): "fast-1", ("orders", 1): "slow-2", ("orders", 2): "third-3"}),
        Owners(dead + 3_030, {("orders", 0): "fast-1", ("orders", 1): "fast-1", ("orders", 2): "third-3"}),
    ]
    killed = an_incident(
        name, cause="killed", sentence="bill-2@10.0.0.2 was killed or crashed: it ended without leaving the group.",
        advice="Look for an OOM kill or a crash on the host; a lower session.timeout.ms notices it sooner.", confidence=0.93,
        from_ms=dead - 45 * SECOND, to_ms=dead + 3_030, alternatives=[{"cause": "paused", "confidence": 0.07, "evidence": []}],
        evidence=[
            {"text": "its connection was reset, without LeaveGroup", "weight": "must"},
            {"text": "it has not come back on that connection", "weight": "likely"},
            {"text": "another client of that host goes on", "weight": "unlikely"},
        ],
        sources=["event x-6", "event x-7"],
        effects=[
            {
                "group": name, "rebalance_count": 1, "join_ms": 3_000, "sync_ms": 30, "last_to_join": "bill-1@10.0.0.1",
                "last_wait_ms": 3_000, "unowned_ms": 48_030, "is_observed": True, "has_epochs": False,
            }
        ],
    )  # fmt: skip
    fields: dict[str, Any] = {
        "name": name, "state": "Stable", "now_ms": START + 20 * MINUTE, "generation": 3, "protocol": "range", "members": members,
        "offsets": [OffsetNow("orders", 0, 120, 0), OffsetNow("orders", 1, 40, 12_345), OffsetNow("orders", 2, 77, 3)],
        "turns": turns, "facts": facts, "incidents": [an_incident(name), killed], "owners": owners,
        "commits": {("orders", 0): [late - 5_000, late + 50_000]},
    }  # fmt: skip
    return GroupNow(**(fields | others))


def row_of(group: GroupNow) -> GroupRow:
    """The same group in the list."""
    worst, last = group.incidents[-1], group.turns[-1]
    return GroupRow(
        group.name, group.state, last.is_open, last.began_ms, len(group.members), len(group.turns), group.lag,
        *headline(worst),
    )  # fmt: skip


CLUSTER = Site("kshim at 127.0.0.1:9092", START + 20 * MINUTE, can_act=True, stream="/v1/history/stream")
