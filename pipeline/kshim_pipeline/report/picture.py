"""The main charts of a page as one PNG, for READMEs and chats; drawn without a browser."""

from __future__ import annotations

from typing import Any, Final

import vl_convert

from kshim_pipeline.report.page import Page
from kshim_pipeline.report.style import theme

_MOST: Final = 4
_SCALE: Final = 1.2


def picture(page: Page) -> bytes:
    """The first charts of the page below each other, each under its title. Raises ValueError: it has none."""
    drawn = [section for section in page.sections if section.chart is not None][:_MOST]
    if not drawn:
        raise ValueError("the page has no chart")
    panels: list[dict[str, Any]] = []
    datasets: dict[str, Any] = {}  # altair keeps rows beside a chart, where Vega-Lite wants them only at the top
    for section in drawn:
        assert section.chart is not None
        panel = {key: value for key, value in section.chart.items() if key not in ("config", "$schema", "datasets")}
        datasets |= section.chart.get("datasets", {})
        panels.append(panel | {"title": {"text": section.title, "subtitle": section.question, "frame": "group"}})
    facts = " \u00b7 ".join(f"{value} {name}" for name, value in page.facts)
    document = {
        "$schema": drawn[0].chart["$schema"] if drawn[0].chart else None,
        "config": theme() | {"background": "#ffffff"},
        "datasets": datasets,
        "title": {"text": page.title, "subtitle": facts, "fontSize": 20, "offset": 16},
        "resolve": {"scale": {"color": "independent", "x": "independent", "y": "independent", "size": "independent"}},
        "spacing": 30,
        "vconcat": panels,
    }
    found: bytes = vl_convert.vegalite_to_png(document, scale=_SCALE)
    return found
