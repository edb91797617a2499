"""The JSON of an event: any text survives it, and it stays small however large the group."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kshim.broker.history.event import LIST_MAX_BYTES, Ending, HistoryEvent, Kicked, Phases
from kshim.broker.history.tracker import REASONS
from kshim.coordinator.events import Arrival, Cause, MemberRef
from kshim.coordinator.step import Now
from tests.broker.history.page import KEYWORDS, problems


def an_event(phases: Phases | None = None, *, text: str = "why", group_id: str = "g") -> HistoryEvent:
    return HistoryEvent(
        "rebalance_completed",
        "f" * 32,
        7,
        3,
        Now(5, 1_700_000_000_000),
        1,
        group_id,
        "consumer",
        2,
        4,
        5,
        "CompletingRebalance",
        "Stable",
        "member_joined",
        text,
        MemberRef(member_id="a-1", client_id=text, client_host="/10.0.0.1", client_reason=text),
        phases,
    )


def arrival(number: int, wait_ms: int) -> Arrival:
    return Arrival(f"member-{number}", None, "c" * 200, "/10.0.0.1", False, wait_ms)


@given(text=st.text(st.characters(exclude_categories=[])))
def test_any_text_of_a_client_comes_back_as_it_was(text: str) -> None:
    ending = Ending("assignment_received", text, text)
    document = an_event(
        Phases(
            1,
            1,
            1,
            0,
            leader_id=text,
            protocol=text,
            waits=(Arrival(text, text, text, "h", True, 0),),
            kicked=(Kicked(MemberRef(member_id=text, client_id=text), "session_timeout", True),),
            ended_by=ending,
        ),
        text=text,
        group_id=text,
    ).document()
    assert problems(document) == []
    found: list[Any] = [document["group"], document["reason_text"], document["leader_id"], document["protocol"]]
    found += [document["trigger"][name] for name in ("client_id", "client_reason")]
    found += [document["waits"][0][name] for name in ("member_id", "instance_id", "client_id")]
    found += [document["kicked"][0][name] for name in ("member_id", "client_id")]
    found += [document["ended_by"][name] for name in ("text", "member_id")]
    assert set(found) == {text}


def test_hosts_have_no_slash() -> None:
    phases = Phases(1, 1, 1, 0, last_to_join=arrival(1, 5), kicked=(Kicked(MemberRef(member_id="b"), "x", False),))
    document = an_event(phases).document()
    assert document["trigger"]["host"] == document["last_to_join"]["host"] == "10.0.0.1"
    assert document["kicked"][0]["host"] == ""


def test_one_event_is_one_line_of_json() -> None:
    assert b"\n" not in an_event(text="a\nb").to_json()


def test_of_very_many_waits_the_slowest_are_kept_in_the_order_of_the_group() -> None:
    waits = tuple(arrival(number, number * 7919 % 5_000) for number in range(5_000))
    document = an_event(Phases(5_000, 5_000, 0, 0, waits=waits)).document()
    kept = document["waits"]
    assert 0 < len(kept) == 5_000 - document["waits_omitted"]
    assert len(json.dumps(kept)) < 2 * LIST_MAX_BYTES
    numbers = [int(wait["member_id"].removeprefix("member-")) for wait in kept]
    assert numbers == sorted(numbers)
    assert {wait["wait_ms"] for wait in kept} == set(range(5_000 - len(kept), 5_000))


def test_of_very_many_kicked_members_the_first_are_kept() -> None:
    kicked = tuple(
        Kicked(MemberRef(member_id=f"m-{number}", client_id="c" * 400), "sync_timeout", False)
        for number in range(2_000)
    )
    document = an_event(Phases(2_000, 2_000, 2_000, 0, kicked=kicked)).document()
    kept = [entry["member_id"] for entry in document["kicked"]]
    assert 0 < len(kept) < 2_000
    assert kept == [f"m-{number}" for number in range(len(kept))]
    assert (document["kicked_omitted"], document["members"]["kicked"]) == (2_000 - len(kept), 2_000)


def test_every_cause_of_the_coordinator_that_can_be_a_reason_is_a_keyword_of_the_page() -> None:
    assert set(REASONS) == set(Cause)
    without_group = {"topic_deleted"}
    assert set(REASONS.values()) - set(KEYWORDS) == without_group
    assert set(KEYWORDS) - set(REASONS.values()) == {"admin", "coordinator_loaded"}
