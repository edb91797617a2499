"""What pictures and pages show is what the documentation lists."""

from __future__ import annotations

import re

from kshim.drawing import BarKind, MarkKind
from kshim.page.html import EVENT_TYPES
from tests.docs.blocks import DOCS


def test_the_page_lists_every_bar_and_mark() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `?(.*?)`? \| (.*) \|$", (DOCS / "pictures.md").read_text(), re.MULTILINE)
    bars = [(kind.keyword, kind.character * 2, kind.words) for kind in BarKind]
    marks = [(kind.keyword, kind.character, kind.words) for kind in MarkKind if kind is not MarkKind.COMMITTED]
    assert rows == [*bars, *marks, (MarkKind.COMMITTED.keyword, "not drawn", MarkKind.COMMITTED.words)]


def test_browsers_listen_to_every_event_that_the_history_has() -> None:
    section = (DOCS / "design" / "events.md").read_text().partition("\n## Types\n")[2].partition("\n- ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == {*EVENT_TYPES, "type"} - {"gap"}
