"""The history over HTTP: pages, and a stream of server-sent events that goes on where it ended."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.control.members import Member
from tests.control.service import PATIENCE_S, Service, a_service


@contextmanager
def following(service: Service, path: str = "/v1/history/stream", **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream, as dictionaries of their fields."""
    connection = http.client.HTTPConnection(service.address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream")
        yield events_in(answer)
    finally:
        connection.close()


def events_in(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    fields: dict[str, Any] = {}
    while line := answer.readline().decode():
        if line != "\n":
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = json.loads(value) if name == "data" else value
        elif "data" in fields:
            yield fields
            fields = {}
        else:
            fields = {}


def rebalance(service: Service, group_id: str) -> None:
    service.ask("POST", f"/v1/groups/{group_id}/coordinator", {"node": 1})
    with Member(service.bootstrap, group_id) as member:
        member.join()


def test_the_history_is_read_in_pages(service: Service) -> None:
    rebalance(service, "in-pages")
    events: list[Any] = []
    page = service.get("/v1/history?group=in-pages&limit=2")
    while page["events"]:
        events += page["events"]
        page = service.get(f"/v1/history?group=in-pages&limit=2&after={page['next']}")
    assert [event["type"] for event in events] == [
        "member_joined",
        "rebalance_started",
        "join_completed",
        "rebalance_completed",
    ]
    assert {event["group"] for event in events} == {"in-pages"}
    assert {event["run"] for event in events} == {page["run"]}


def test_a_stream_gives_what_happens_and_goes_on_after_the_last_event_seen(service: Service) -> None:
    with following(service, "/v1/history/stream?group=streamed&after=0") as events:
        rebalance(service, "streamed")
        seen = [next(events) for _ in range(3)]
    assert [event["event"] for event in seen] == ["member_joined", "rebalance_started", "join_completed"]
    assert seen[0]["data"]["event_id"] == seen[0]["id"]
    with following(service, "/v1/history/stream?group=streamed", **{"Last-Event-ID": seen[1]["id"]}) as events:
        assert next(events) == seen[2]
        assert next(events)["event"] == "rebalance_completed"


def test_a_stream_begins_with_what_happens_next(service: Service) -> None:
    rebalance(service, "before")
    with following(service) as events:
        rebalance(service, "next")
        assert next(events)["data"]["group"] == "next"


def test_a_stream_of_another_life_of_the_brokers_begins_anew(service: Service) -> None:
    rebalance(service, "anew")
    with following(service, "/v1/history/stream?group=anew", **{"Last-Event-ID": "0123-999999"}) as events:
        assert next(events)["event"] == "member_joined"
    assert service.ask("GET", "/v1/history/stream", headers={"Last-Event-ID": "nonsense"}).status == 400


def test_a_stream_says_what_is_no_longer_kept(tmp_path: Path) -> None:
    with a_service(tmp_path, "--config=kshim.history.max.events=2") as service:
        rebalance(service, "g")
        assert service.get("/v1/history")["missed"] == 2
        with following(service, "/v1/history/stream?after=0") as events:
            assert next(events)["data"] == {"missed": 2}
            assert [next(events)["event"] for _ in range(2)] == ["join_completed", "rebalance_completed"]


def test_streams_are_limited_and_a_peer_that_went_counts_no_more(service: Service) -> None:
    for _ in range(2):
        with ExitStack() as streams:
            for _ in range(20):
                streams.enter_context(following(service))
            refused = service.ask("GET", "/v1/history/stream")
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        while service.ask("HEAD", "/v1/history/stream").status == 503:
            pass
