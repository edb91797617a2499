"""What the history says of a simulated group: `told(sim)` reads the coordinator's events and gives documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kshim.coordinator.step import Event
from kshim.history.event import HistoryEvent
from kshim.history.tracker import Tracker
from tests.coordinator.harness import Sim
from tests.history.page import problems

RUN = "0123456789abcdef" * 2


def told_of(events: Iterable[Event], *, initial_delay_ms: int = 0) -> list[HistoryEvent]:
    """The history of these events of a coordinator."""
    found: list[HistoryEvent] = []
    tracker = Tracker(found.append, run=RUN, initial_delay_ms=initial_delay_ms)
    for event in events:
        tracker.observe(event, 1)
    return found


def told(sim: Sim, since: int = 0) -> list[dict[str, Any]]:
    """Everything the history says, as JSON values, from the `since`-th event on. All of it fits the page."""
    delay_ms = sim.config.group_initial_rebalance_delay_ms
    documents = [event.document() for event in told_of(sim.events, initial_delay_ms=delay_ms)]
    assert [problem for document in documents for problem in problems(document)] == []
    return documents[since:]


def types(documents: list[dict[str, Any]]) -> list[str]:
    """What happened, shortly."""
    return [document["type"] for document in documents]


def only(documents: list[dict[str, Any]], type_: str) -> dict[str, Any]:
    """The one event of that type."""
    [found] = [document for document in documents if document["type"] == type_]
    return found


def check_refused(event: dict[str, Any], member_id: str) -> None:
    """A heartbeat of the member came with an epoch that is not its own."""
    said = (event["type"], event["reason"], event["trigger"]["member_id"])
    assert said == ("member_refused", "fenced_epoch", member_id)


def check_end(documents: list[dict[str, Any]]) -> None:
    """The last that is told of a group with epochs: its last member left, and it was deleted."""
    assert types(documents)[-5:] == [
        "member_left",
        "rebalance_started",
        "rebalance_aborted",
        "group_emptied",
        "group_dead",
    ]


def check_rebalances(documents: list[dict[str, Any]]) -> None:
    """Each rebalance of a group with epochs that was told of from its beginning has one end."""
    ends = [event["epoch"] for event in documents if event["outcome"] is not None]
    starts = [event["epoch"] for event in documents if event["type"] == "rebalance_started"]
    assert ends in (starts, starts[:-1]), "each rebalance ends once, but for the last one, which may be open"
