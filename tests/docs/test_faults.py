"""The page about faults: its program runs, its rules can be armed, its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

from kshim.faults.document import rules_from_toml
from kshim.faults.rule import ACTIONS, TRIGGERS, Match
from tests.broker.harness import a_node
from tests.docs.blocks import blocks
from tests.docs.faults_page import PAGE, written
from tests.docs.session import Session
from tests.faults.harness import faults_of


def test_the_program_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.play(PAGE)


def test_the_rules_of_the_page_can_be_armed() -> None:
    (text,) = blocks(PAGE, "toml")
    faults = faults_of(a_node(topics={"orders": 1}))
    for rule in rules_from_toml(text):
        faults.arm(rule)
    assert len(faults.active) == text.count("[[fault]]")


def test_the_tables_of_the_page_have_every_match_action_and_trigger_and_nothing_else() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## What clients make")[0], re.MULTILINE)
    assert named == [*Match._fields[1:], *ACTIONS, *TRIGGERS]


def test_the_table_of_clients_is_that_of_the_tests() -> None:
    assert PAGE.read_text() == written()
