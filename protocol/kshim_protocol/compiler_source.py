"""What the generators of parse and build code share: the function in the making, and what generated code calls."""

from __future__ import annotations

import struct
from typing import Any

from kshim_protocol.frame import MAX_SECTION_TAGS, MAX_TEXT_BYTES, MAX_VARINT_BYTES

SMALL = 16
"""Arrays of fixed-width values below this length have a ready-made `struct.Struct` each."""

SIZES = tuple(bytes((n + 1,)) for n in range(127))
"""Compact lengths below 127, by length: one byte that says n + 1."""

ODD = tuple(not 0 < n < 128 for n in range(256))
"""By first byte of a compact length: whether it is null or goes on."""


class Fault(ValueError):
    """Generated code met what it does not handle; the interpreted tree takes over."""


class Crowd(ValueError):
    """A message holds more elements or tags than it may."""


def more_varint(data: bytes, at: int, skip: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, not in 1..127, is read; the second stands at `at + skip`.

    Returns (value, at moved so that `at + skip` is behind the varint). Faults on zero: a compact null where none may
    be, or a zero written in more bytes than it needs.
    """
    if first == 0:
        raise Fault
    value = first & 0x7F
    for i in range(1, MAX_VARINT_BYTES):
        byte = data[at + skip]
        at += 1
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if not value:
                raise Fault
            return value, at
    raise Fault


def more_text(data: bytes, at: int, skip: int, first: int) -> tuple[int, int]:
    """`more_varint` for the length of text (plus one), which Java limits. Faults beyond `MAX_TEXT_BYTES`."""
    size, at = more_varint(data, at, skip, first)
    if size > MAX_TEXT_BYTES + 1:
        raise Fault
    return size, at


def text_size(size_bytes: int) -> bytes:
    """The compact length of long text. Faults beyond `MAX_TEXT_BYTES`."""
    if size_bytes > MAX_TEXT_BYTES:
        raise Fault
    return uvarint(size_bytes + 1)


def unknown_tags(data: bytes, at: int, skip: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """A tagged section none of whose tags is known; its count, not zero, is the byte before `at + skip`.

    Returns (tags and their bytes, at moved so that `at + skip` is behind the section).
    """
    count, at = _uvarint_at(data, at + skip - 1)
    if count > MAX_SECTION_TAGS:
        raise Crowd
    found = []  # grows only as far as the data goes
    for _ in range(count):
        tag, at = _uvarint_at(data, at)
        size, at = _uvarint_at(data, at)
        if size > len(data) - at:
            raise Fault
        found.append((tag, data[at : at + size]))
        at += size
    return tuple(found), at - skip


def _uvarint_at(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(MAX_VARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at
    raise Fault


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return (value & 0x7F | 0x80 | value >> 7 << 8).to_bytes(2, "little")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def struct_format(letter: str, count: int) -> str:
    """struct's format of `count` values."""
    return ">" + letter * count if len(letter) > 1 else f">{count}{letter}"


class Source:
    """Lines of a function in the making, and the objects its code names (`scope`)."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"Fault": Fault}
        self._count = 0

    def name(self, stem: str) -> str:
        """A new local name."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: object) -> str:
        """Code of a value: itself where that is short, else a name in the scope."""
        if value is None or isinstance(value, (int, bool)) or value in ("", b"", ()):
            return repr(value)
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.name(stem)
        self.scope[name] = value
        return name

    def global_(self, name: str, value: object) -> str:
        """Put a value into the scope under a fixed name."""
        self.scope[name] = value
        return name

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def text(self) -> str:
        """The function."""
        return "\n".join(self.lines) + "\n"


def layout_name(verb: str, letters: str) -> str:
    """The name of a struct function in generated code: `unpack_ihB`, `unpack_4xiB`."""
    return f"{verb}_{letters.replace('?', 't')}"


def small_layouts(letter: str) -> tuple[struct.Struct, ...]:
    """The layouts of 0 to SMALL - 1 values."""
    return tuple(struct.Struct(struct_format(letter, count)) for count in range(SMALL))
