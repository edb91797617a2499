"""The style and the script of the pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kshim.drawing.vocabulary import CSS as DRAWING_CSS
from kshim.drawing.vocabulary import DARK
from kshim.explain.html import CSS, INCIDENT_CSS

_FOLDER = Path(__file__).parent
_WIDTH = 1_240


@cache
def style() -> str:
    """The whole style sheet."""
    own = (_FOLDER / "page.css").read_text(encoding="utf-8")
    return "\n".join((CSS % {"width": _WIDTH}, DARK, DRAWING_CSS, INCIDENT_CSS, own))


@cache
def script() -> bytes:
    """The script."""
    return (_FOLDER / "page.js").read_bytes()
