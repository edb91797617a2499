"""Faults and the clock over HTTP: what a client sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kshim_protocol.errors import ErrorCode
from tests.control.members import Member
from tests.control.service import Service, a_service

REFUSED_HEARTBEAT = {
    "on": "Heartbeat",
    "match": {"group": "faulty-*"},
    "do": {"error": "NOT_COORDINATOR"},
    "when": {"times": 2},
    "name": "away for a while",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("faults")) as service:
        yield service


def test_a_fault_fires_is_seen_and_is_over(alone: Service) -> None:
    with Member(alone.bootstrap, "faulty-1").join() as member:
        fault = alone.ask("POST", "/v1/faults", REFUSED_HEARTBEAT)
        assert fault.status == 201
        path = f"/v1/faults/{fault.json['fault_id']}"
        unused = alone.ask("POST", "/v1/faults/assert-used")
        assert unused.status == 409
        assert "away for a while" in unused.json["detail"]
        assert [member.heartbeat() for _ in range(3)] == [
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.NONE,
        ]
        seen = alone.get(path)
        assert (seen["is_over"], seen["fired_count"]) == (True, 2)
        assert [(each["api"], each["group"], each["member_id"]) for each in seen["fired"]] == [
            ("Heartbeat", "faulty-1", member.member_id)
        ] * 2
        assert alone.ask("POST", "/v1/faults/assert-used").status == 204
        assert fault.json["fault_id"] in [each["fault_id"] for each in alone.get("/v1/faults")["faults"]]
        alone.ask("POST", "/v1/groups/faulty-1/expel", {"member": member.member_id})
        events = alone.get("/v1/history?group=faulty-1")["events"]
        assert "away for a while" in [event["injected_fault"] for event in events]
        assert alone.ask("DELETE", "/v1/faults").status == 204
        assert alone.ask("GET", path).status == 404


def test_a_fault_is_cancelled(alone: Service) -> None:
    with Member(alone.bootstrap, "faulty-2").join() as member:
        fault = alone.ask("POST", "/v1/faults", {**REFUSED_HEARTBEAT, "when": "always"}).json["fault_id"]
        assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert alone.ask("DELETE", f"/v1/faults/{fault}").json["is_over"]
        assert member.heartbeat() == ErrorCode.NONE


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"on": "HeartBeat"}, 422, "Heartbeat"),
        ({"do": {"error": "OFFSET_OUT_OF_RANGE"}}, 422, "OFFSET_OUT_OF_RANGE"),
        ({"match": {"colour": "red"}}, 422, "colour"),
        ({"when": {"times": 0}}, 422, "times"),
        ({"do": {"delay": "1"}}, 422, 'delay needs a number of seconds above 0, not "1"'),
        ({"do": {"hang": False}}, 422, "hang takes no value, not false"),
        ({"when": 3}, 400, "`when` must be a string or an object, not an integer"),
        ({"then": 3}, 400, "there is no field `then`"),
    ],
)
def test_a_fault_that_cannot_be_is_explained(
    alone: Service, change: dict[str, object], status: int, sentence: str
) -> None:
    answer = alone.ask("POST", "/v1/faults", {**REFUSED_HEARTBEAT, **change})
    assert answer.status == status
    assert sentence in answer.json["detail"]


def test_a_session_expires_when_the_clock_is_moved(alone: Service) -> None:
    with Member(alone.bootstrap, "expiring").join() as member:
        before = alone.get("/v1/clock")
        moved = alone.ask("POST", "/v1/clock/advance", {"seconds": 31})
        assert moved.json["now_ms"] >= before["now_ms"] + 31_000
        assert ["session", ["expiring", member.member_id]] in [
            [timer["kind"], timer["key"]] for timer in moved.json["fired"]
        ]
        assert alone.get("/v1/groups/expiring")["state"] == "Empty"
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_may_be_kept_alive_while_the_clock_is_moved(alone: Service) -> None:
    with Member(alone.bootstrap, "kept").join() as member:
        moved = alone.ask("POST", "/v1/clock/advance", {"seconds": 500, "keep_alive": ["client-of-*"]})
        assert "session" not in [timer["kind"] for timer in moved.json["fired"]]
        assert member.heartbeat() == ErrorCode.NONE
        assert alone.ask("POST", "/v1/clock/advance", {"seconds": 1, "keep_alive": ["*a*a*a*a"]}).status == 400
        refused = alone.ask("POST", "/v1/clock/advance", {"seconds": 1, "keep_alive": ["nobody"]})
        assert (refused.status, member.member_id in refused.json["detail"]) == (404, True)


@pytest.mark.parametrize("seconds", [-1, "46", None, 1e300])
def test_the_clock_moves_ahead_by_a_number_of_seconds(alone: Service, seconds: object) -> None:
    assert alone.ask("POST", "/v1/clock/advance", {"seconds": seconds}).status == 400


def test_the_clock_says_how_fast_it_runs(tmp_path: Path) -> None:
    with a_service(tmp_path, "--clock=manual") as service:
        now_ms = service.get("/v1/clock")["now_ms"]
        service.ask("POST", "/v1/clock/advance", {"seconds": 1.5})
        assert service.get("/v1/clock") == {"now_ms": now_ms + 1_500, "rate": 0.0}
