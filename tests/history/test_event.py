"""The JSON of an event: any text survives it, and it stays small however large the group."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.groups.events import Arrivals, Cause, MemberRef
from kshim.coordinator.step import Now
from kshim.history.course import About, Arrival, Ending, Kicked
from kshim.history.event import HistoryEvent
from kshim.history.json_parts import LIST_MAX_BYTES
from kshim.history.keywords import KEYWORDS as ALL_KEYWORDS
from kshim.history.keywords import REASONS
from kshim.history.timeline import Timeline
from tests.coordinator.peers import a_group
from tests.history.page import KEYWORDS, problems
from tests.history.told import told

ANNA = MemberRef(member_id="a-1", client_id="anna", client_host="/10.0.0.1")


def an_end(
    arrivals: Arrivals,
    *kicked: Kicked,
    text: str = "why",
    group_id: str = "g",
    trigger: MemberRef = ANNA,
    last_to_join: Arrival | None = None,
) -> HistoryEvent:
    """A rebalance that was completed."""
    ending = Ending("assignment_received", text, text)
    count = len(arrivals.members)
    timeline = Timeline(
        about=About(group_id, "consumer", "classic", 2, 4, "member_joined", text, trigger),
        started_ms=100,
        expected=count,
        initial_delay_ms=None,
    )
    timeline.join_ms, timeline.arrivals, timeline.last_to_join = 5, arrivals, last_to_join
    timeline.leader_id = timeline.protocol = text
    timeline.kicked += kicked
    timeline.close()
    return HistoryEvent(
        type="rebalance_completed",
        run="f" * 32,
        number=7,
        seq=3,
        now=Now(105, 1_700_000_000_000),
        broker=1,
        why=timeline,
        state_from="CompletingRebalance",
        state_to="Stable",
        to_generation=5,
        expected=count,
        kicked_count=len(kicked),
        pending_sync=0,
        sync_ms=0,
        last_to_sync=last_to_join,
        outcome="completed",
        ended_by=ending,
    )


@given(text=st.text(st.characters(exclude_categories=[])))
def test_any_text_of_a_client_comes_back_as_it_was(text: str) -> None:
    member = MemberRef(member_id=text, group_instance_id=text, client_id=text, client_host="h", client_reason=text)
    arrivals = Arrivals((member,), (0,), b"\1")
    kicked = Kicked(member, "session_timeout", True)
    document = an_end(arrivals, kicked, text=text, group_id=text, trigger=member).document()
    assert problems(document) == []
    found: list[Any] = [document["group"], document["reason_text"], document["leader_id"], document["protocol"]]
    found += [document["trigger"]["client_reason"], document["ended_by"]["text"], document["ended_by"]["member_id"]]
    for part in (document["trigger"], document["waits"][0], document["kicked"][0]):
        found += [part[name] for name in ("member_id", "instance_id", "client_id")]
    assert set(found) == {text}


def test_names_of_any_length_are_told() -> None:
    long = MemberRef(member_id="m" * 5_000, client_id="c" * 5_000)
    document = an_end(Arrivals((long, ANNA), (0, 5), b"\0\1"), trigger=long).document()
    assert [wait["member_id"] for wait in document["waits"]] == ["m" * 5_000, "a-1"]
    assert [wait["is_new"] for wait in document["waits"]] == [False, True]


def test_hosts_have_no_slash() -> None:
    nowhere = MemberRef(member_id="b")
    arrivals = Arrivals((ANNA,), (5,), b"\0")
    document = an_end(arrivals, Kicked(nowhere, "x", False), last_to_join=Arrival(ANNA, False, 5)).document()
    assert document["trigger"]["host"] == document["last_to_join"]["host"] == document["waits"][0]["host"] == "10.0.0.1"
    assert document["kicked"][0]["host"] == ""


def test_one_event_is_one_line_of_json() -> None:
    assert b"\n" not in an_end(Arrivals((), (), b""), text="a\nb").to_json()


def test_of_very_many_waits_the_slowest_are_kept_in_the_order_of_the_group() -> None:
    count = 5_000
    members = tuple(MemberRef(member_id=f"member-{number}", client_id="c" * 200) for number in range(count))
    waits = tuple(number * 7919 % count for number in range(count))
    document = an_end(Arrivals(members, waits, bytes(count))).document()
    kept = document["waits"]
    assert 0 < len(kept) == count - document["waits_omitted"]
    assert len(json.dumps(kept)) < 2 * LIST_MAX_BYTES
    numbers = [int(wait["member_id"].removeprefix("member-")) for wait in kept]
    assert numbers == sorted(numbers)
    assert {wait["wait_ms"] for wait in kept} == set(range(count - len(kept), count))


def test_of_very_many_kicked_members_the_first_are_kept() -> None:
    kicked = [
        Kicked(MemberRef(member_id=f"m-{number}", client_id="c" * 400), "sync_timeout", False)
        for number in range(2_000)
    ]
    document = an_end(Arrivals((), (), b""), *kicked).document()
    kept = [entry["member_id"] for entry in document["kicked"]]
    assert 0 < len(kept) < 2_000
    assert kept == [f"m-{number}" for number in range(len(kept))]
    assert (document["kicked_omitted"], document["members"]["kicked"]) == (2_000 - len(kept), 2_000)


def test_an_event_of_the_beginning_says_nothing_of_what_came_later() -> None:
    sim = a_group().stable("a", "b")
    begun = [event for event in told(sim) if event["type"] == "rebalance_started"]
    assert [event["members"]["expected"] for event in begun] == [1, 2]
    for event in begun:
        later = ("to_generation", "leader_id", "join_ms", "last_to_join", "waits", "kicked", "protocol", "ended_by")
        assert [event[name] for name in later] == [None] * len(later)


def test_every_cause_of_the_coordinator_that_can_be_a_reason_is_a_keyword_of_the_page() -> None:
    assert set(REASONS) == set(Cause)
    without_group = {"topic_deleted"}
    assert set(REASONS.values()) - set(KEYWORDS) == without_group
    assert set(KEYWORDS) == ALL_KEYWORDS - without_group
