"""Small words in sentences."""

from __future__ import annotations

import unicodedata
from typing import Final

_PLAIN: Final = bytes(code if 0x20 <= code < 0x7F else 0x3F for code in range(0x100))
"""For `translate`, which leaves printable ASCII as it is and makes a question mark of the rest."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number of things, in the plural unless it is one.

    >>> counted(1, "member"), counted(2, "committed offset"), counted(0, "batch", "batches")
    ('1 member', '2 committed offsets', '0 batches')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def escaped(text: str) -> str:
    r"""`text` in one line: what is not printable (line ends, escape sequences, lone surrogates) as `\n`, `\x1b` ..."""
    if text.isascii() and (data := text.encode()).translate(_PLAIN) == data:  # a tenth of what `isprintable` costs
        return text
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def columns(text: str) -> int:
    """How wide printable text is on a terminal.

    >>> columns("orders"), columns("日本")
    (6, 4)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):  # others that combine take a place of their own
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
