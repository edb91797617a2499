"""Topics over HTTP."""

from __future__ import annotations

import pytest

from tests.control.service import Service


def test_the_brokers_are_ready_and_say_where(service: Service) -> None:
    assert service.get("/health") == {"status": "ok"}
    assert service.get("/ready")["bootstrap_servers"] == service.bootstrap


def test_a_topic_is_made_looked_at_and_deleted(service: Service) -> None:
    new = {"name": "invoices", "partitions": 2, "configs": {"retention.ms": "1000"}}
    made = service.ask("POST", "/v1/topics", new)
    assert made.status == 201
    assert made.json == service.get("/v1/topics/invoices")
    assert made.json["configs"] == {"retention.ms": "1000"}
    assert [partition["end_offset"] for partition in made.json["partitions"]] == [0, 0]
    assert service.ask("POST", "/v1/topics", new).status == 409
    assert service.ask("DELETE", "/v1/topics/invoices").status == 204
    assert service.ask("DELETE", "/v1/topics/invoices").status == 404


def test_topics_are_listed_in_pages(service: Service) -> None:
    for name in ("page-a", "page-b", "page-c"):
        service.ask("POST", "/v1/topics", {"name": name})
        assert service.get(f"/v1/topics/{name}")["name"] == name
    first = service.get("/v1/topics?after=page-&limit=2")
    assert [topic["name"] for topic in first["topics"]] == ["page-a", "page-b"]
    rest = service.get(f"/v1/topics?after={first['next']}&limit=1000")
    assert rest["topics"][0]["name"] == "page-c"
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "the body: object missing required field `name`"),
        ({"name": "x", "partitions": 0}, "the body: expected `int` >= 1 - at `$.partitions`"),
        ({"name": "x", "partition": 1}, "the body: object contains unknown field `partition`"),
        ([], "the body: expected `object`, got `array`"),
        (b"{", "the body is not JSON: input data was truncated"),
    ],
)
def test_a_bad_body_is_explained(service: Service, body: object, detail: str) -> None:
    answer = service.ask("POST", "/v1/topics", body)
    assert (answer.status, answer.json) == (400, {"title": "Bad Request", "status": 400, "detail": detail})


@pytest.mark.parametrize("name", ["with space", "a/b", "__consumer_offsets"])
def test_the_rules_of_create_topics_hold(service: Service, name: str) -> None:
    answer = service.ask("POST", "/v1/topics", {"name": name})
    assert answer.status in (409, 422)


def test_an_unknown_path_or_method_says_what_there_is(service: Service) -> None:
    assert service.ask("GET", "/v1/topic").status == 404
    answer = service.ask("PUT", "/v1/topics")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
