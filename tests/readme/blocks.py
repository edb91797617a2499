"""The fenced blocks of a Markdown page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parents[2] / "README.md"
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block: its language and its text."""

    language: str
    text: str


def blocks(page: Path, language: str) -> list[str]:
    """The text of every block of `language`, in order."""
    found = [Block(*match.groups()) for match in _FENCED.finditer(page.read_text())]
    return [block.text for block in found if block.language == language]
