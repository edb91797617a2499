"""The 20 questions of docs/design/page.md: where the first screen of a group, or of the list, answers each, without scrolling."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Page

from integration.page.screenshots import SIZE, html
from integration.page.served import ADDRESS, serve
from kshim.page import group_page
from tests.page.groups import CLUSTER, billing

LIST = "/page"
GROUP = "/page?group=billing"
SLOW = "/page?group=billing&rebalance=2"
FAULTY = "/page?group=faulty&rebalance=2"
"""The same group, on whose requests an injected fault acted."""

ANSWERS = {
    1: (GROUP, "p.state", "Stable"),
    2: (LIST, "#groups tbody tr:first-child th", "invoices"),
    3: (GROUP, "#why .culprit", "bill-2@10.0.0.2"),
    4: (GROUP, "#why .culprit", "@10.0.0.2"),
    5: (GROUP, "#why time", "2026-11-18 11:09:55Z"),
    6: (GROUP, "#why .what", "bill-2@10.0.0.2 was killed or crashed"),
    7: (GROUP, "#why h2", "93% sure, observed"),
    8: (GROUP, "#why .advice", "session.timeout.ms"),
    9: (LIST, "#groups tbody tr:first-child .chip", "PreparingRebalance"),
    10: (GROUP, "p.state", "3 rebalances"),
    11: (SLOW, "#turn", "last to join: bill-2@10.0.0.2 after 40.0 s"),
    12: (SLOW, "#turn", "JOIN 40.0 s, SYNC 80 ms"),
    13: (GROUP, "#why dl", "partitions had no living owner for 48.0 s"),
    14: (GROUP, "svg.lanes text.owner", "bill-1@10.0.0.1"),
    15: (GROUP, "p.state", "lag 12,348"),
    16: (GROUP, "svg.lanes .culprit path.gone", "its session expired"),
    17: (GROUP, "#why .cause.client", "killed"),
    18: (FAULTY, "#turn .what", "Faults that were injected before or during it: Heartbeat: drop"),
    19: (GROUP, "#lanes .tools button", "Copy as text"),
    20: (GROUP, "#now", "Now 2026-11-18 11:26:40Z"),
}


def shown(query: str) -> str:
    """The groups of the screenshots, and one with a fault."""
    asked = parse_qs(query)
    if asked.get("group") != ["faulty"]:
        return html(query)
    group = billing("faulty")
    told = f"{group.turns[1].explanation} Faults that were injected before or during it: Heartbeat: drop."
    turns = [
        group.turns[0],
        group.turns[1]._replace(explanation=told, injected_faults=("Heartbeat: drop",)),
        group.turns[2],
    ]
    return group_page(CLUSTER, group._replace(turns=turns), rebalance=2)


@pytest.mark.parametrize("number", ANSWERS)
def test_the_first_screen_answers(page: Page, number: int, tmp_path: Path) -> None:
    address, where, words = ANSWERS[number]
    serve(page, shown)
    page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    page.goto(ADDRESS + address)
    found = page.locator(where).first
    assert words in (found.text_content() or "")
    picture = tmp_path / "first-screen.png"
    page.screenshot(path=picture)
    box = found.bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["y"] + min(box["height"], 20) <= SIZE[1], f"{words} is below the first screen: {picture}"


def test_every_question_of_the_documentation_has_its_test() -> None:
    text = (Path(__file__).parents[2] / "docs" / "design" / "page.md").read_text(encoding="utf-8")
    asked = [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert asked == list(ANSWERS)
