"""Incidents as one HTML page: everything that the JSON has, for any names, with nothing to load."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kshim.explain.html import page

HOUR = 3_600_000


def an_incident(name: str = "billing", *, from_ms: int = 0, to_ms: int = 1_000, **others: Any) -> dict[str, Any]:
    return {
        "cause": "killed",
        "subject": "client",
        "groups": [name],
        "clients": [name],
        "host": name,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "confidence": 0.93,
        "basis": "observed",
        "sentence": f"{name} was killed or crashed.",
        "advice": f"Look at {name}.",
        "would_tell": None,
        "effects": [
            {
                "group": name,
                "rebalance_count": 2,
                "join_ms": 40_000,
                "sync_ms": 80,
                "last_to_join": name,
                "last_wait_ms": 1,
                "unowned_ms": 45_000,
                "is_observed": True,
                "has_epochs": False,
            }
        ],
        "evidence": [
            {"text": f"{name} closed its connection", "weight": "must"},
            {"text": f"{name} committed later", "weight": "unlikely"},
        ],
        "sources": [name],
        "alternatives": [{"cause": "paused", "confidence": 0.07, "evidence": [{"text": name, "weight": "must_not"}]}],
    } | others


def a_document(*incidents: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "sources": ["events"], "since_ms": None, "damaged": [], "incidents": list(incidents)}


class Read(HTMLParser):
    """The text and the elements of a page, as a browser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_group_called_script_is_text() -> None:
    name = "<script>alert(1)</script>"
    read = Read(page(a_document(an_incident(name))))
    assert "script" not in read.tags
    assert name in read.text


@given(st.text())
def test_no_name_makes_an_element_an_attribute_or_a_line(name: str) -> None:
    plain = Read(page(a_document(an_incident())))
    read = Read(page(a_document(an_incident(name))))
    assert read.tags == plain.tags
    assert [key for key, _ in read.attributes] == [key for key, _ in plain.attributes]
    assert all(line.isprintable() for line in page(a_document(an_incident(name))).split("\n"))


def test_nothing_is_loaded_from_anywhere() -> None:
    read = Read(page(a_document(an_incident())))
    assert not read.tags & {"script", "link", "img", "iframe", "object"}
    links = [value for key, value in read.attributes if key in ("href", "src")]
    assert links
    assert all(value is not None and value.startswith("#") for value in links)


def test_the_page_says_all_that_is_known_of_an_incident() -> None:
    text = " ".join(Read(page(a_document(an_incident("billing", would_tell="The log would tell.")))).text)
    for part in (
        "killed", "93%", "observed", "billing was killed or crashed.", "JOIN took 40.0 s (last to join: billing)",
        "for:  billing closed its connection", "against:  billing committed later", "paused (7%)",
        "against:  billing", "Look at billing.", "The log would tell.",
    ):  # fmt: skip
        assert part in text


def timelines(html: str) -> list[ET.Element]:
    """The drawings, read as XML."""
    return [ET.fromstring("<svg" + part.partition("</svg>")[0] + "</svg>") for part in html.split("<svg")[1:]]


def test_each_group_has_a_timeline_with_a_bar_for_each_of_its_incidents() -> None:
    both = an_incident(groups=["billing", "shipping"], from_ms=HOUR, to_ms=HOUR)
    billing, shipping = timelines(page(a_document(an_incident(), both)))
    assert [link.get("href") for link in billing.iter("a")] == ["#incident-0", "#incident-1"]
    assert [link.get("href") for link in shipping.iter("a")] == ["#incident-1"]


@given(st.lists(st.tuples(st.integers(0, HOUR), st.integers(0, HOUR)), min_size=1, max_size=20))
def test_bars_are_on_the_drawing_and_never_overlap(times: list[tuple[int, int]]) -> None:
    spans = sorted((begin, begin + length) for begin, length in times)
    (drawing,) = timelines(page(a_document(*(an_incident(from_ms=begin, to_ms=end) for begin, end in spans))))
    width = float((drawing.get("viewBox") or "").split()[2])
    bars = sorted(
        (float(bar.get("y", "")), float(bar.get("x", "")), float(bar.get("width", ""))) for bar in drawing.iter("rect")
    )
    assert len(bars) == len(spans)
    for lane, left, length in bars:
        assert 0 <= left <= left + length <= width + 0.1
        assert not [x for y, x, _ in bars if y == lane and left < x < left + length]


def test_a_page_without_incidents_says_so() -> None:
    assert "Nothing has disturbed a group, as far as was read." in Read(page(a_document())).text
