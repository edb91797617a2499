"""What pictures and pages show is what the documentation lists."""

from __future__ import annotations

import re

from kshim.drawing import BarKind, MarkKind
from kshim.page.html import EVENT_TYPES
from tests.docs.blocks import DOCS


def test_the_page_lists_every_bar_and_mark() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (DOCS / "pictures.md").read_text(), re.MULTILINE)
    assert rows == [(kind.keyword, kind.words) for kind in (*BarKind, *MarkKind)]


def test_browsers_listen_to_every_event_that_the_history_has() -> None:
    section = (DOCS / "design" / "events.md").read_text().partition("\n## Types\n")[2].partition("\n- ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == {*EVENT_TYPES, "type"} - {"gap"}
