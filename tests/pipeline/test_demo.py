"""The demo holds what was named against what was done."""

from __future__ import annotations

from typing import Any

from kshim.explain.causes import Cause
from kshim_pipeline.demo.incidents import SCRIPTS, Truth
from kshim_pipeline.demo.judge import judge

KILLED = Truth("killed", frozenset({"orders"}), frozenset({"app-2@10.0.0.2"}), 10_000, 20_000)


def named(**fields: Any) -> dict[str, Any]:
    row = {"groups": ["orders"], "from_ms": 12_000, "to_ms": 15_000, "cause": "killed", "subject": "client"}
    return row | {"clients": ["app-2@10.0.0.2"], "host": None} | fields


def test_the_right_cause_and_member_at_the_right_time_is_correct() -> None:
    (judged,) = judge([KILLED], [named()]).judged
    assert judged.is_cause_right
    assert judged.is_culprit_right


def test_another_member_or_cause_is_wrong() -> None:
    assert not judge([KILLED], [named(clients=["app-1@10.0.0.2"])]).judged[0].is_culprit_right
    other = named(cause="paused")
    (judged,) = judge([KILLED], [other]).judged
    assert judged.found == other
    assert not judged.is_cause_right


def test_an_incident_in_another_group_or_later_is_a_false_alarm() -> None:
    for elsewhere in (named(groups=["billing"]), named(from_ms=40_000, to_ms=50_000)):
        verdict = judge([KILLED], [elsewhere])
        assert verdict.judged[0].found is None
        assert verdict.false_alarms == [elsewhere]


def test_one_incident_matches_one_truth() -> None:
    first, second = judge([KILLED, KILLED], [named()]).judged
    assert [first.found, second.found] == [named(), None]
    assert len(judge([KILLED], [named(), named()]).false_alarms) == 1


def test_a_host_is_named_as_a_host() -> None:
    stalled = KILLED._replace(cause="host_stalled", culprits=frozenset({"10.0.0.9"}))
    found = named(cause="host_stalled", subject="host", clients=[], host="10.0.0.9")
    assert judge([stalled], [found]).judged[0].is_culprit_right


def test_the_diagnosis_knows_every_cause_of_the_demo() -> None:
    assert {script.cause for script in SCRIPTS} < {str(cause) for cause in Cause}
