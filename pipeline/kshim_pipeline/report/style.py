"""How charts look: one place, so that all panels of the page agree."""

from __future__ import annotations

from typing import Any, Final

WIDTH: Final = 980
"""Width of a chart, in pixels."""

INK: Final = "#1f2933"
QUIET: Final = "#7b8794"
GRID: Final = "#e4e7eb"

CAUSE_COLORS: Final = [
    "#2f6f9f",
    "#d1603d",
    "#5b8e4c",
    "#8a5fa6",
    "#c79a2b",
    "#4aa3a2",
    "#b04a6f",
    "#6b7280",
    "#9c6b3f",
    "#3d4f8a",
]
PHASE_COLORS: Final = {"JOIN": "#2f6f9f", "SYNC": "#c79a2b"}
HEAT: Final = "orangered"
"""Name of the Vega colour scheme of heat maps."""


def theme() -> dict[str, Any]:
    """The Vega-Lite `config` of every chart."""
    return {
        "background": None,
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": INK,
            "titleColor": QUIET,
            "titleFontWeight": "normal",
            "gridColor": GRID,
            "domainColor": GRID,
            "tickColor": GRID,
            "labelLimit": 220,
        },
        "legend": {"labelColor": INK, "titleColor": QUIET, "titleFontWeight": "normal", "orient": "bottom"},
        "title": {"color": INK, "anchor": "start", "fontSize": 14, "subtitleColor": QUIET},
        "range": {"category": CAUSE_COLORS},
    }
