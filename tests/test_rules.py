"""The rule book is well-formed, so that scenarios and tests can cite it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from kshim.tools.scenario.streams_groups import STATUSES
from kshim_protocol.errors import ErrorCode
from tests.transcripts.rules_table import NOT_SCENARIOS

RULES: list[dict[str, str]] = tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))["rule"]
KEYS = ["id", "api", "when", "answer", "effect", "record", "timer", "code", "source", "section"]
APIS = {
    "AlterShareGroupOffsets",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "Coordinator",
    "DeleteGroups",
    "DeleteShareGroupOffsets",
    "DescribeGroups",
    "DescribeShareGroupOffsets",
    "FindCoordinator",
    "Heartbeat",
    "JoinGroup",
    "LeaveGroup",
    "ListGroups",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
    "StreamsGroupDescribe",
    "StreamsGroupHeartbeat",
    "SyncGroup",
    "TxnOffsetCommit",
}
NOT_SERVED = {rule["id"] for rule in NOT_SCENARIOS if rule["test"] == "none"}
ERRORS = {code.name for code in ErrorCode}
any_rule = pytest.mark.parametrize("rule", RULES, ids=[rule["id"] for rule in RULES])


def test_ids_are_unique() -> None:
    assert [id_ for id_, count in Counter(rule["id"] for rule in RULES).items() if count > 1] == []


def test_no_two_rules_are_about_the_same_case() -> None:
    cases = Counter((rule["api"], rule["when"], rule["section"]) for rule in RULES)
    assert [case for case, count in cases.items() if count > 1] == []


@any_rule
def test_a_rule_is_well_formed(rule: dict[str, str]) -> None:
    assert list(rule) == [key for key in KEYS if key in rule]
    assert {"id", "api", "when", "source", "section"} <= set(rule)
    assert rule.keys() & {"answer", "effect", "record", "timer"}, "nothing follows"
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*(\.[a-z0-9]+(-[a-z0-9]+)*){1,3}", rule["id"])
    assert rule["api"] in APIS
    assert rule["source"] in ("M", "S")
    assert re.fullmatch(r"([1-9]|1[0-5])(\.\d+)?", rule["section"])
    for text in rule.values():
        assert text == text.strip()
        assert text
        assert not text.endswith(".")
        assert "\n" not in text


@any_rule
def test_errors_and_statuses_bear_kafkas_names(rule: dict[str, str]) -> None:
    if "answer" in rule:
        assert rule["answer"].split(";")[0] in ERRORS | {"parked"}
    for text in (text for key, text in rule.items() if key != "code"):
        assert set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text)) <= ERRORS | set(STATUSES)


@any_rule
def test_the_code_of_a_rule_exists(rule: dict[str, str]) -> None:
    if "code" not in rule:
        assert rule["id"] in NOT_SERVED
        return
    module, _, name = rule["code"].partition("::")
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)


def test_every_section_of_the_study_has_rules() -> None:
    assert {rule["section"].split(".")[0] for rule in RULES} == {str(section) for section in range(1, 16)}


@any_rule
def test_rules_cited_by_others_exist(rule: dict[str, str]) -> None:
    ids = [other["id"] for other in RULES]
    for text in rule.values():
        for cited in re.findall(r"\brules? ([a-z0-9-]+\.[a-z0-9.*-]+)", text):
            assert any(id_ == cited or (cited[-1] == "*" and id_.startswith(cited[:-1])) for id_ in ids), cited
