"""Charts as SVG in the page: drawn once, here, so that the page needs no library; colours follow light and dark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from kshim.wording import escaped
from kshim_pipeline.report.style import GRID, INK, QUIET

_ROLES: Final = re.compile(r' (?:role|aria-roledescription|aria-hidden)="[^"]*"')
_MARK: Final = re.compile(r'<(path|text|rect)([^>]*?) aria-label="([^"]*)"([^>]*?)(?:/>|></\1>)')
_LABEL: Final = re.compile(r' aria-label="[^"]*"')
_ID: Final = re.compile(r'(\bid="|url\(#)([\w-]+)')

CHART_CSS: Final = f"""
svg.chart {{ display: block; max-width: none; overflow: visible; margin: 0 24px; }} svg.chart text {{ unicode-bidi: isolate; }}
svg.chart [fill="{INK}"] {{ fill: var(--ink); }} svg.chart [fill="{QUIET}"] {{ fill: var(--quiet); }}
svg.chart [stroke="{INK}"] {{ stroke: var(--ink); }} svg.chart [stroke="{GRID}"] {{ stroke: var(--line); }}
svg.chart [stroke="white"] {{ stroke: var(--paper); }}
""".strip()


def drawn(chart: Mapping[str, Any], label: str, element_id: str) -> str:
    """A Vega-Lite document as SVG in HTML. What a mark is appears when a mouse is over it; `label` says what the chart shows."""
    import vl_convert

    found = escaped(vl_convert.vegalite_to_svg(json.loads(json.dumps(chart, default=str))))
    found = _ROLES.sub("", found)
    found = _MARK.sub(lambda mark: f"<{mark[1]}{mark[2]}{mark[4]}><title>{mark[3]}</title></{mark[1]}>", found)
    found = _LABEL.sub("", found)
    found = _ID.sub(lambda each: f"{each[1]}{element_id}-{each[2]}", found)
    return found.replace(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1" class="marks"',
        f"<svg id='{element_id}' class='chart' role='img' aria-label='{escape(label)}'",
        1,
    )
