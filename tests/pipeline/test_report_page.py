"""The page stands alone, shows what it was given, and lets no name of a group break it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from kshim_pipeline.report.page import Finding, Page, Section, render

HOSTILE = "</script><script>alert('g')</script>"


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


def a_page(**parts: Any) -> str:
    page = Page(
        title="Rebalances",
        subtitle="one day",
        facts=[("groups", "10")],
        findings=[Finding("critical", HOSTILE, f"{HOSTILE} was late.", "Do something.", "observed", "p 3, offset 12")],
        sections=[
            Section(
                "Storms", "Which groups rebalance most?", {"mark": "bar", "data": {"values": [{"group": HOSTILE}]}}
            ),
            Section("Lag", "Who catches up?", None, "No log ends were sampled."),
        ],
    )
    return render(page._replace(**parts), "const vegaEmbed = () => '</script>';")


def test_nothing_is_loaded_from_elsewhere() -> None:
    for tag, attributes in Parsed(a_page()).elements:
        assert tag not in {"link", "img", "iframe"}
        assert not {"src", "href"} & attributes.keys()


def test_a_hostile_name_is_text_and_ends_no_script() -> None:
    parsed = Parsed(a_page())
    assert [tag for tag, _ in parsed.elements].count("script") == 1
    assert HOSTILE in parsed.words


def test_each_section_has_its_chart_or_says_why_there_is_none() -> None:
    text = a_page()
    assert [attributes["id"] for tag, attributes in Parsed(text).elements if "id" in attributes] == ["chart-0"]
    found = re.search(r"const charts = (.*);\n", text)
    assert found is not None
    charts = json.loads(found[1].replace("<\\/", "</"))
    assert charts["chart-0"]["data"]["values"] == [{"group": HOSTILE}]
    assert "No log ends were sampled." in Parsed(text).words


def test_a_quiet_fleet_has_a_page_too() -> None:
    assert "No findings." in Parsed(a_page(findings=[], sections=[])).words


def test_findings_that_did_not_fit_are_counted() -> None:
    assert "7 more" in Parsed(a_page(findings_omitted=7)).words
