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
        ({}, "the body: `name` is missing"),
        ({"name": "x", "partitions": 0}, "the body: `partitions` must be an integer of at least 1"),
        ({"name": "x", "partition": 1}, "the body: there is no field `partition`; there are name, partitions, configs"),
        ([], "the body: it must be an object, not an array"),
        ({"name": 5}, "the body: `name` must be a string, not an integer"),
        ({"name": "x", "configs": {"a": None}}, "the body: `configs.*` must be a string, not null"),
        ({"name": "", "partitions": 1.5}, "the body: `name` must be a string of at least 1 character"),
        (b"{", "the body is not JSON: it ends too early"),
    ],
)
def test_a_bad_body_is_explained(service: Service, body: object, detail: str) -> None:
    answer = service.ask("POST", "/v1/topics", body)
    assert (answer.status, answer.json) == (400, {"title": "Bad Request", "status": 400, "detail": detail})


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/topics?limit=many", 'the query: `limit` must be an integer, not "many"'),
        ("/v1/topics?limit=0", 'the query: `limit` must be an integer of at least 1, not "0"'),
        ("/v1/topics?limt=1", "the query: there is no field `limt`; there are after, limit"),
        ("/v1/groups/g/wait?timeout=soon", 'the query: `timeout` must be a number, not "soon"'),
        ("/v1/groups/g/wait?timeout=0", 'the query: `timeout` must be a number above 0, not "0"'),
        (
            "/v1/topics/orders/records?isolation=all",
            'the query: `isolation` must be "read_committed" or "read_uncommitted", not "all"',
        ),
        ("/v1/faults/" + "x" * 101, "the path: `fault` must be a string of at most 100 characters"),
    ],
)
def test_a_bad_query_or_path_is_explained(service: Service, path: str, detail: str) -> None:
    answer = service.ask("GET", path)
    assert (answer.status, answer.json["detail"]) == (400, detail)


@pytest.mark.parametrize("name", ["with space", "a/b", "__consumer_offsets"])
def test_the_rules_of_create_topics_hold(service: Service, name: str) -> None:
    answer = service.ask("POST", "/v1/topics", {"name": name})
    assert answer.status in (409, 422)


def test_a_number_without_a_fraction_is_an_integer_as_to_json(service: Service) -> None:
    made = service.ask("POST", "/v1/topics", b'{"name": "whole", "partitions": 2.0}')
    assert (made.status, len(made.json["partitions"])) == (201, 2)


def test_an_unknown_path_or_method_says_what_there_is(service: Service) -> None:
    assert service.ask("GET", "/v1/topic").status == 404
    answer = service.ask("PUT", "/v1/topics")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
