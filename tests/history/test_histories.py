"""Whatever clients, timers, logs and crashes do, the history of it is whole and adds up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from hypothesis import HealthCheck, settings

from kshim.coordinator.groups.classic.state import GroupState
from kshim.coordinator.groups.events import MemberAdded, Transition
from tests.coordinator.groups.test_machine import Clients
from tests.history.told import told

Documents = list[dict[str, Any]]


class HistoryOfClients(Clients):
    """The random clients of the coordinator's own test; when they are done their history is looked over."""

    def teardown(self) -> None:
        super().teardown()
        documents = told(self.sim)
        for life in lives(documents):
            numbers_have_no_gaps(life)
            every_rebalance_ends_at_most_once(life)
            for course in courses(life):
                times_add_up(course)
                members_add_up(course)
        self.nothing_is_missing(documents)

    def nothing_is_missing(self, documents: Documents) -> None:
        """As many starts, newcomers and deaths as the coordinator itself told of."""
        moves = [event for event in self.sim.events if isinstance(event, Transition)]
        for state, type_ in (
            (GroupState.PREPARING_REBALANCE, "rebalance_started"),
            (GroupState.COMPLETING_REBALANCE, "join_completed"),
            (GroupState.STABLE, "rebalance_completed"),
            (GroupState.EMPTY, "group_emptied"),
            (GroupState.DEAD, "group_dead"),
        ):
            assert count(documents, type_) == sum(event.new is state for event in moves), type_
        assert count(documents, "member_joined") == sum(isinstance(event, MemberAdded) for event in self.sim.events)


HistoryOfClients.TestCase.settings = settings(
    max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestHistoryOfClients = HistoryOfClients.TestCase


def count(documents: Documents, type_: str) -> int:
    return sum(document["type"] == type_ for document in documents)


def lives(documents: Documents) -> Iterator[Documents]:
    """The events of each group, cut where it died."""
    by_group: dict[str, Documents] = {}
    for document in documents:
        life = by_group.setdefault(document["group"], [])
        life.append(document)
        if document["type"] == "group_dead":
            yield by_group.pop(document["group"])
    yield from by_group.values()


def courses(life: Documents) -> Iterator[Documents]:
    """The events of each rebalance itself, in order."""
    for epoch, events in groupby(life, key=lambda event: event["epoch"]):
        course = [event for event in events if event["type"].startswith(("rebalance_", "join_", "sync_"))]
        if epoch:
            yield course


def numbers_have_no_gaps(life: Documents) -> None:
    assert [event["seq"] for event in life] == list(range(1, len(life) + 1))
    epochs = [event["epoch"] for event in life if event["type"] == "rebalance_started"]
    assert epochs == list(range(1, len(epochs) + 1))
    assert [event["epoch"] for event in life] == sorted(event["epoch"] for event in life)
    assert [event["mono_ms"] for event in life] == sorted(event["mono_ms"] for event in life)


def every_rebalance_ends_at_most_once(life: Documents) -> None:
    """Only the last one may be open."""
    all_courses = list(courses(life))
    for number, course in enumerate(all_courses):
        assert course[0]["type"] == "rebalance_started"
        assert [event["type"] for event in course].count("rebalance_started") == 1
        ended = [event for event in course if event["type"] in ("rebalance_completed", "rebalance_aborted")]
        assert len(ended) == 1 or (not ended and number == len(all_courses) - 1)
        for event in ended:
            assert event["outcome"] is not None
            assert (event["outcome"] == "completed") == (event["type"] == "rebalance_completed")
            assert (event["outcome"] == "superseded") == (
                event["state_from"] == "CompletingRebalance" and was_superseded(event, life)
            )


def was_superseded(event: dict[str, Any], life: Documents) -> bool:
    following = life[event["seq"]] if event["seq"] < len(life) else None
    return (
        event["type"] == "rebalance_aborted"
        and following is not None
        and following["type"] == "rebalance_started"
        and following["state_from"] == "CompletingRebalance"
    )


def times_add_up(course: Documents) -> None:
    began = course[0]
    joined = next((event for event in course if event["type"] == "join_completed"), None)
    assert (began["join_ms"], began["sync_ms"], began["total_ms"]) == (None, None, None)
    for event in course[1:]:
        assert event["join_ms"] >= 0
        assert event["total_ms"] == event["join_ms"] + (event["sync_ms"] or 0)
        assert event["total_ms"] == event["mono_ms"] - began["mono_ms"]
        if joined is None:
            assert event["sync_ms"] is None
            continue
        assert event["join_ms"] == joined["join_ms"] == joined["mono_ms"] - began["mono_ms"]
        if event is not joined:
            assert event["sync_ms"] == event["mono_ms"] - joined["mono_ms"] >= 0
        if event["last_to_sync"] is not None:
            assert 0 <= event["last_to_sync"]["wait_ms"] <= event["sync_ms"]
        for wait in event["waits"] or ():
            assert 0 <= wait["wait_ms"] <= event["last_to_join"]["wait_ms"] <= event["join_ms"]


def members_add_up(course: Documents) -> None:
    for event in course:
        members = event["members"]
        assert members["kicked"] >= 0
        if event["kicked"] is not None:
            assert members["kicked"] == len(event["kicked"])
        if members["joined"] is None:
            assert members["pending_sync"] is None
            assert event["leader_id"] is None
            continue
        assert 1 <= members["joined"] <= members["expected"]
        assert 0 <= members["pending_sync"] <= members["expected"]
        assert event["to_generation"] == event["from_generation"] + 1
        if event["waits"] is not None:
            assert len(event["waits"]) == members["joined"]
        if event["type"] == "sync_completed":
            assert members["pending_sync"] == 0
