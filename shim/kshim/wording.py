"""Small words in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number of things, in the plural unless it is one.

    >>> counted(1, "member"), counted(2, "committed offset"), counted(0, "batch", "batches")
    ('1 member', '2 committed offsets', '0 batches')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def escaped(text: str) -> str:
    r"""`text` in one line: what is not printable (line ends, escape sequences, lone surrogates) as `\n`, `\x1b` ..."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
