"""Every rule of the rule book is shown by a scenario, or it is said why not and which test holds it."""

from __future__ import annotations

import ast

from kshim.tools.scenario.library import load_scenarios
from tests.transcripts.rules_table import NOT_SCENARIOS, PAGE, ROOT, RULES, page

SCENARIOS = load_scenarios()
RULE_IDS = {rule["id"] for rule in RULES}
CITED = {rule_id for scenario in SCENARIOS for rule_id in scenario.rules}
EXCUSED = {rule["id"] for rule in NOT_SCENARIOS}


def test_every_rule_is_shown_or_excused() -> None:
    assert not RULE_IDS - CITED - EXCUSED


def test_only_rules_of_the_book_are_cited_and_excused() -> None:
    assert not CITED - RULE_IDS
    assert not EXCUSED - RULE_IDS


def test_what_is_shown_needs_no_excuse() -> None:
    assert not EXCUSED & CITED


def test_an_excuse_names_a_test_that_exists_or_an_api_that_is_not_served() -> None:
    for rule in NOT_SCENARIOS:
        if rule["test"] == "none":
            assert "not served" in rule["reason"] or "no groups of the new protocol" in rule["reason"], rule["id"]
            continue
        file, _, name = rule["test"].partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, rule["test"]


def test_the_page_is_what_the_scenarios_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(SCENARIOS), "run python -m tests.transcripts.rules_table"


def test_titles_tell_scenarios_apart() -> None:
    titles = [scenario.title for scenario in SCENARIOS]
    assert sorted(set(titles)) == sorted(titles)


def test_the_five_situations_everything_began_with_are_among_them() -> None:
    assert {
        "one_consumer_then_a_second",
        "late_joiner_in_completing",
        "lost_join_reply_is_asked_again",
        "dead_follower",
        "dead_leader_during_sync",
        "from_empty_to_dead",
    } <= {scenario.name for scenario in SCENARIOS}
