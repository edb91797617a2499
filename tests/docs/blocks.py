"""The fenced blocks of a Markdown page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block, in order."""
    return _FENCED.findall(page.read_text())


def blocks(page: Path, language: str) -> list[str]:
    """The text of every block of `language`, in order."""
    return [text for found, text in all_blocks(page) if found == language]
