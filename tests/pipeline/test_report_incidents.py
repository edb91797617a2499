"""Which incidents come first, which are things to fix, and the command that shows one."""

from __future__ import annotations

from typing import Any

from kshim_pipeline.report.incidents import incident_object, to_fix, why_command, worst_first
from tests.pipeline.report_pages import a_row


def an_incident(cause: str, *groups: str, seconds: int = 1, **fields: Any) -> dict[str, Any]:
    return incident_object(a_row(cause, *groups, from_ms=0, to_ms=seconds * 1_000, **fields))


def test_the_most_severe_come_first_then_what_disturbed_its_groups_for_longest() -> None:
    found = worst_first(
        [
            an_incident("deploy", seconds=900),
            an_incident("unknown", seconds=900),
            an_incident("killed", seconds=10),
            an_incident("paused", "a", "b", "c", seconds=5),
            an_incident("host_stalled", seconds=1),
        ]
    )
    assert [each["cause"] for each in found] == ["host_stalled", "paused", "killed", "unknown", "deploy"]


def test_what_one_client_does_again_and_again_is_one_thing_to_fix() -> None:
    again = [an_incident("slow_poll", seconds=number) for number in (2, 9, 3)]
    (thing,) = to_fix(again)
    assert [each["to_ms"] for each in thing.incidents] == [9_000, 3_000, 2_000]
    assert thing.groups == ["billing"]


def test_what_comes_back_goes_before_what_happened_once_and_lasted_a_little_longer() -> None:
    again = [an_incident("slow_poll", seconds=8) for _ in range(3)]
    once = an_incident("killed", clients=["other@h"], seconds=10)
    assert [each.worst["cause"] for each in to_fix([once, *again])] == ["slow_poll", "killed"]


def test_at_most_three_are_to_fix_and_none_that_was_wanted() -> None:
    many = [an_incident("killed", clients=[f"c{number}@h"]) for number in range(9)]
    assert len(to_fix(many)) == 3
    assert to_fix([an_incident("deploy"), an_incident("scale_up"), an_incident("one_by_one_start")]) == []


def test_the_command_names_group_and_time_and_a_shell_takes_it_as_it_is() -> None:
    incident = an_incident("killed", "two words; rm", seconds=2)
    assert (
        why_command(incident, "--data-dir logs")
        == "kshim why --data-dir logs --at 1970-01-01T00:00:01.000Z 'two words; rm'"
    )
    assert why_command(an_incident("killed", "-g"), "").endswith(" -- -g")


def test_what_an_incident_says_of_itself_is_kept() -> None:
    more: dict[str, Any] = {
        "confidence": 0.9,
        "effects": [{"group": "billing"}],
        "reasons": [{"text": "its connection was reset", "weight": "must"}],
        "alternatives": [{"cause": "paused", "confidence": 0.1, "evidence": []}],
        "would_tell": "The client's own log.",
    }
    found = incident_object(a_row(**more))
    assert found["evidence"] == more["reasons"]
    assert [found[name] for name in ("confidence", "effects", "alternatives", "would_tell")] == [
        more[name] for name in ("confidence", "effects", "alternatives", "would_tell")
    ]
