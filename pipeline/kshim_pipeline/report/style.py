"""How charts look: one place, so that all panels of the page agree."""

from __future__ import annotations

from typing import Any, Final

WIDTH: Final = 860
"""Width of a chart, in pixels."""

_INK: Final = "#1f2933"
_QUIET: Final = "#7b8794"
_GRID: Final = "#e4e7eb"

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
LANE_COLORS: Final = {
    "has not joined": "#d1603d",
    "waits for other members": "#2f6f9f",
    "waits for its assignment": "#c79a2b",
    "removed": "#6b7280",
}
"""What a member does in a rebalance, in this order."""
SEVERITY_COLORS: Final = {"critical": "#b3261e", "warning": "#b7791f", "info": "#2f6f9f"}
HEAT: Final = "orangered"
"""Name of the Vega colour scheme of heat maps."""


def theme() -> dict[str, Any]:
    """The Vega-Lite `config` of every chart."""
    return {
        "background": "#ffffff",
        "font": "Inter, system-ui, Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": _INK,
            "titleColor": _QUIET,
            "titleFontWeight": "normal",
            "gridColor": _GRID,
            "domainColor": _GRID,
            "tickColor": _GRID,
            "labelLimit": 220,
        },
        "legend": {"labelColor": _INK, "titleColor": _QUIET, "titleFontWeight": "normal", "orient": "bottom"},
        "title": {"color": _INK, "anchor": "start", "fontSize": 14, "subtitleColor": _QUIET},
        "range": {"category": CAUSE_COLORS},
    }
