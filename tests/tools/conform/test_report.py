"""The three forms of the report, and what is asked for."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

import pytest

from kshim.tools.conform.report import entry_of, heading_of, note_of
from kshim.tools.conform.run import UnknownName, run_conform, select
from kshim.tools.report import REPORTS, Verdict
from kshim.tools.scenario.library import load_scenarios
from kshim.tools.scenario.model import Scenario
from kshim.tools.scenario.parse import parse_scenario
from kshim.tools.scenario.verdict import Failure, Result

FAILURE = Failure(7, "join a  -> NONE", "NONE <ok>", "X \x00", ("expected NONE, seen X",))


def scenario(name: str, suite: str) -> Scenario:
    text = f"# The story of {name}\nsuite: {suite}\nrules: some.rule\nrun: wire 1s\n\nlist -> NONE\n"
    return parse_scenario(name, text)


RESULTS = [
    Result(scenario("good", "join"), Verdict.PASSED, 0.25),
    Result(scenario("bad", "join"), Verdict.FAILED, 0.5, failure=FAILURE),
    Result(scenario("none", "leave"), Verdict.SKIPPED, 0.0, reason="the broker does not serve LeaveGroup"),
]


def report(form: str, results: list[Result] = RESULTS) -> str:
    stream = io.StringIO()
    made = REPORTS[form](heading_of("host:9092"), stream)
    for result in results:
        made.add(entry_of(result))
    made.end(note=note_of(results, unplayed=4), fields={"virtual_only": 4})
    return stream.getvalue()


def test_text_has_a_verdict_a_behaviour_and_expected_below_seen() -> None:
    lines = report("text").splitlines()
    assert lines[0] == "Group protocol of host:9092, compared with Apache Kafka 4.4"
    assert "  passed   The story of good" in lines
    at = lines.index("  FAILED   The story of bad")
    assert lines[at + 1 : at + 4] == [
        "           bad.txt, line 7: join a -> NONE",
        "             expected  NONE <ok>",
        "             received  X \x00",
    ]
    at = lines.index("  skipped  The story of none")
    assert lines[at - 1] == "leave"
    assert lines[at + 1].strip() == "the broker does not serve LeaveGroup"
    assert "3 behaviours: 1 passed, 1 failed, 1 skipped" in lines


def lacking(name: str, *settings: str) -> Result:
    return Result(scenario(name, "session"), Verdict.SKIPPED, 0.0, reason="needs ...", missing=settings)


def test_text_ends_with_each_setting_that_would_let_skipped_behaviours_run() -> None:
    short, delay = "group.min.session.timeout.ms=500", "group.initial.rebalance.delay.ms=3000"
    results = [*RESULTS, lacking("one", short), lacking("two", short), lacking("three", delay, short)]
    assert report("text", results).splitlines()[-3:] == [
        "Skipped for the broker's configuration; on kshim these options let them run:",
        f"  1 behaviour: kshim serve --config {delay} --config {short}",
        f"  2 behaviours: kshim serve --config {short}",
    ]
    assert "kshim serve" not in report("text")


def test_json_names_the_settings_that_a_skipped_behaviour_needs() -> None:
    found = json.loads(report("json", [lacking("one", "group.max.size=2")]))
    assert found["behaviours"][0]["missing_configuration"] == ["group.max.size=2"]


def test_json_holds_everything() -> None:
    found = json.loads(report("json"))
    assert (found["passed"], found["failed"], found["skipped"], found["virtual_only"]) == (1, 1, 1, 4)
    good, bad, none = found["behaviours"]
    assert (good["name"], good["suite"], good["verdict"], good["rules"]) == ("good", "join", "passed", ["some.rule"])
    assert "failure" not in good
    assert bad["failure"] == {
        "line": 7, "step": "join a  -> NONE", "expected": "NONE <ok>", "seen": "X \x00",
        "differences": ["expected NONE, seen X"],
    }  # fmt: skip
    assert none["reason"] == "the broker does not serve LeaveGroup"


def test_junit_is_xml_with_a_suite_a_suite() -> None:
    root = ElementTree.fromstring(report("junit"))
    join, leave = root.findall("testsuite")
    assert (join.get("name"), join.get("tests"), join.get("failures"), join.get("skipped")) == ("join", "2", "1", "0")
    assert (leave.get("tests"), leave.get("skipped")) == ("1", "1")
    good, bad = join.findall("testcase")
    assert (good.get("name"), len(good)) == ("good", 0)
    failure = bad.find("failure")
    assert failure is not None
    assert failure.text is not None
    assert "NONE <ok>" in failure.text
    skipped = leave.find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "the broker does not serve LeaveGroup"


def test_suites_are_chosen_by_name_and_virtual_scenarios_left_out() -> None:
    scenarios = load_scenarios()
    chosen = select(scenarios, ["leave", "fetch"])
    assert {scenario.suite for scenario in chosen} == {"leave", "fetch"}
    everything = select(scenarios, [])
    assert everything == sorted(everything, key=lambda scenario: (scenario.suite, scenario.name))
    assert len(everything) == sum(scenario.limit_ms is not None for scenario in scenarios)


def test_an_unknown_suite_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"unknown suite dance; the suites are admin, .*, versions"):
        select(load_scenarios(), ["dance"])


@pytest.mark.parametrize("cap", [("Dance", "1"), ("JoinGroup", "10"), ("JoinGroup", "x"), ("OffsetCommit", "1")])
def test_a_version_must_be_one_of_an_api(cap: tuple[str, str]) -> None:
    with pytest.raises(UnknownName, match=f"{cap[0]}={cap[1]} is not an API with one of its versions"):
        run_conform("127.0.0.1", 1, caps=dict([cap]))
