"""The style and the script of the pages, and pages as files that need nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2s
from pathlib import Path

from kshim.drawing.vocabulary import CSS as DRAWING_CSS
from kshim.drawing.vocabulary import DARK
from kshim.explain.html import CSS, INCIDENT_CSS
from kshim.page.html import group_page
from kshim.page.values import GroupNow, Site

_FOLDER = Path(__file__).parent
_WIDTH = 1_240
_PLAIN = 60
"""Characters of a group's name in that of its file."""


@cache
def style() -> str:
    """The whole style sheet."""
    own = (_FOLDER / "page.css").read_text(encoding="utf-8")
    return "\n".join((CSS % {"width": _WIDTH}, DARK, DRAWING_CSS, INCIDENT_CSS, own))


@cache
def script() -> bytes:
    """The script."""
    return (_FOLDER / "page.js").read_bytes()


def pages_of(site: Site, groups: Iterable[GroupNow]) -> dict[str, str]:
    """The page of each group, by its name, as a file that needs nothing else."""
    return {group.name: group_page(site, group, css=style()) for group in groups}


def written(folder: Path, pages: Mapping[str, str]) -> Iterator[Path]:
    """Write pages of groups to files of a folder, which is made, and return their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, html in pages.items():
        path = folder / f"{plain(name)}.html"
        path.write_bytes(html.encode("utf-8", "replace"))
        yield path


def plain(name: str) -> str:
    """Any name as that of a file; two names never become one.

    >>> plain("billing.eu"), plain("../a b")
    ('billing.eu', '_a_b-4acc1f99')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".")[:_PLAIN]
    if safe and safe == name.lower():
        return name
    return f"{safe}-{blake2s(name.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
