"""The page leads with what to fix, stands alone, shows what it was given, and lets no name of a group break it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

from kshim_pipeline.report.page import anchor, render
from tests.pipeline.report_pages import HOSTILE, a_page, a_row, incidents


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.words += data

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]


def parsed(**parts: Any) -> Parsed:
    return Parsed(render(a_page(**parts)))


def first_screen(**parts: Any) -> str:
    """What stands above the list of incidents."""
    return parsed(**parts).words.partition("All incidents, worst first")[0]


def test_the_page_begins_with_the_three_things_to_fix_worst_first() -> None:
    words = first_screen()
    assert "The three things to fix now, worst first" in words
    culprits = re.findall(r"⚑ (\S+?@[\d.]+)(?=mail|bill)", words)
    assert culprits == ["mail-3@10.0.0.9", "bill-2@10.0.0.2", "bill-2@10.0.0.2"]
    assert words.index("crash_loop") < words.index("killed") < words.index("slow_poll")
    assert "deploy" not in words.lower()


def test_a_thing_to_fix_says_when_where_how_sure_what_to_change_and_how_to_see_it() -> None:
    words = first_screen()
    for expected in (
        "2026-11-18 11:09:55Z, for 48.0 s",
        "billing; lag 12,348",
        "93% sure, observed",
        "a lower session.timeout.ms (now 45 s) notices it sooner",
        "kshim why --bootstrap-server HOST:PORT --at 2026-11-18T11:10:19.000Z billing",
        "2 times in all",
    ):
        assert expected in words


def test_every_link_leads_to_something_in_the_page() -> None:
    page = parsed()
    targets = [str(attributes["href"]) for _, attributes in page.elements if "href" in attributes]
    assert len(targets) > 10
    assert {target.removeprefix("#") for target in targets} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_what_was_wanted_is_nothing_to_fix() -> None:
    deploys = [each for each in incidents() if each["cause"] == "deploy"]
    words = parsed(incidents=deploys).words
    assert "Nothing to fix" in words
    assert "Deployment: bill-3@10.0.0.3 of billing and mail were stopped in order and replaced." in words


def test_a_quiet_fleet_has_a_page_too() -> None:
    words = parsed(findings=[], sections=[], incidents=[], pictures={}, groups=[]).words
    assert "Nothing has disturbed a group" in words
    assert "No findings." in words


def test_nothing_is_loaded_from_elsewhere_and_only_its_own_script_may_run() -> None:
    text = render(a_page())
    for tag, attributes in Parsed(text).elements:
        assert tag not in {"link", "img", "iframe", "object"}
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_a_hostile_name_is_text_and_ends_no_script() -> None:
    named = incidents()
    for each in named:
        each["groups"], each["clients"], each["sentence"] = [HOSTILE], [f"{HOSTILE}@h"], f"{HOSTILE} was late."
    page = parsed(incidents=named)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "<script>alert('g')</script>" in page.words
    assert "\u202e" not in page.words


def test_each_section_has_its_chart_with_what_it_assumes_or_says_why_there_is_none() -> None:
    page = parsed()
    assert "chart-0" in page.ids
    assert "chart-1" not in page.ids
    assert "heartbeats every 3 s" in page.words
    assert "No log ends were sampled." in page.words


def test_rows_of_analyses_are_folded_below_and_carry_their_time() -> None:
    page = parsed()
    assert [tag for tag, _ in page.elements].count("details") >= 2
    rows = page.words.partition("What the analyses measured")[2]
    assert "stuck: 1 row, worst critical. Which partitions make no progress?" in rows
    assert "2026-11-18 11:06:40Z" in rows


def test_each_group_has_an_anchor_and_its_lag() -> None:
    page = parsed()
    assert {anchor(name) for name in ("billing", "mail", HOSTILE)} <= set(page.ids)
    assert "12,348" in page.words
    assert "unknown" in page.words


def test_what_did_not_fit_is_counted() -> None:
    words = parsed(findings_omitted=7, incidents_omitted=11, groups_omitted=13).words
    for expected in ("7 more", "11 more", "13 more"):
        assert expected in words


def test_an_incident_says_where_it_was_read() -> None:
    assert "__kshim_events-3, offset 17, log, line 4" in parsed(incidents=incidents()).words
    assert a_row()["evidence"]
