"""Records over HTTP, without a Kafka client."""

from __future__ import annotations

from base64 import b64encode

from tests.control.service import Service


def test_records_are_written_and_read(service: Service) -> None:
    service.ask("POST", "/v1/topics", {"name": "written", "partitions": 2})
    records = [
        {"key": "k", "value": "first", "headers": {"trace": "1"}, "partition": 1, "timestamp_ms": 5},
        {"value_base64": b64encode(b"\xff\x00").decode(), "partition": 1},
        {"key": "k", "partition": 1},
    ]
    places = service.ask("POST", "/v1/topics/written/records", {"records": records})
    assert places.status == 201
    assert [(each["partition"], each["offset"]) for each in places.json["records"]] == [(1, 0), (1, 1), (1, 2)]
    page = service.get("/v1/topics/written/records?partition=1")
    first, second, third = page["records"]
    assert first == {
        "partition": 1,
        "offset": 0,
        "timestamp_ms": 5,
        "key": "k",
        "value": "first",
        "headers": [["trace", "1"]],
    }
    assert (second["value"], second["value_base64"]) == (None, "/wA=")
    assert (third["key"], third["value"], "value_base64" in third) == ("k", None, False)
    assert (page["next"], page["end"]) == (3, 3)


def test_records_are_read_in_pages(service: Service) -> None:
    service.ask("POST", "/v1/topics", {"name": "paged"})
    for number in range(3):
        records = [{"value": f"{number}-{each}"} for each in range(3)]
        service.ask("POST", "/v1/topics/paged/records", {"records": records})
    found: list[str] = []
    offset = 0
    while offset < 9:
        page = service.get(f"/v1/topics/paged/records?limit=2&offset={offset}")
        assert len(page["records"]) <= 2
        found += [record["value"] for record in page["records"]]
        offset = page["next"]
    assert found == [f"{number}-{each}" for number in range(3) for each in range(3)]
    assert service.get("/v1/topics/paged/records?offset=9")["records"] == []


def test_what_is_not_there_is_not_found(service: Service) -> None:
    body = {"records": [{"value": "v", "partition": 3}]}
    assert service.ask("POST", "/v1/topics/none/records", body).status == 404
    assert service.ask("POST", "/v1/topics/orders/records", body).status == 404
    assert service.ask("GET", "/v1/topics/orders/records?partition=3").status == 404


def test_a_record_that_cannot_be_is_refused(service: Service) -> None:
    assert service.ask("POST", "/v1/topics/orders/records", {"records": []}).status == 400
    assert service.ask("POST", "/v1/topics/orders/records", {"records": [{"value_base64": "?"}]}).status == 400
    service.ask("POST", "/v1/topics", {"name": "compacted", "configs": {"cleanup.policy": "compact"}})
    refused = service.ask("POST", "/v1/topics/compacted/records", {"records": [{"value": "no key"}]})
    assert (refused.status, refused.json["detail"].partition(":")[0]) == (422, "INVALID_RECORD")
