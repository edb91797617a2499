"""Generates the build function of one shape.

Pieces of output are gathered as expressions and joined in one go; loops and choices force them out to a list. Fixed
rows that stand side by side are one `struct` call, short lengths come from a table. What cannot travel makes some step
fail, and the interpreted tree says why; so do messages with unknown tagged fields, which it builds.
"""

from __future__ import annotations

import struct
from typing import Any

from kshim_protocol import shape
from kshim_protocol.compiler_source import (
    SIZES,
    SMALL,
    Source,
    layout_name,
    small_layouts,
    struct_format,
    text_size,
    uvarint,
)
from kshim_protocol.rows import Rows


class BuildCode:
    """The code that builds one tree; `source` holds it. `in_pieces`: it returns the pieces, not joined."""

    def __init__(self, tree: shape.RowTree, *, in_pieces: bool = False) -> None:
        self.source = Source()
        self.run: list[tuple[str, str]] = []  # (format letters, value) of the pending fixed-width run
        self.pieces: list[str] = []  # expressions of bytes not yet emitted
        self.has_out = False
        source = self.source
        source.scope |= {"sizes": SIZES, "text_size": text_size, "uvarint": uvarint}
        source.line(0, "def build(o):")
        source.line(1, "try:")
        cls = source.constant(f"{tree.cls.__name__}_", tree.cls)
        source.line(2, f"if o.__class__ is not {cls}: raise Fault")
        self.row_tree(tree, "o", 2)
        if in_pieces:
            self.flush(2)
            source.line(2, "return out")
        elif self.has_out:
            self.flush(2)
            source.line(2, 'return b"".join(out)')
        else:
            self.end_run()
            joined = self.pieces[0] if len(self.pieces) == 1 else f'b"".join(({", ".join(self.pieces)}))'
            source.line(2, f"return {joined}")
        source.line(1, "except faults as error:")
        source.line(2, "return explain(o, error)")

    def end_run(self) -> None:
        """Turn the pending run into one piece."""
        run, self.run = self.run, []
        if not run:
            return
        letters = "".join(letter for letter, _ in run)
        if letters == "x":
            self.pieces.append(r'b"\0"')
            return
        pack = self.source.global_(layout_name("pack", letters), struct.Struct(">" + letters).pack)
        self.pieces.append(f"{pack}({', '.join(value for _, value in run if value)})")

    def flush(self, indent: int) -> None:
        """Emit everything pending, before control flow or at the end of a block."""
        self.end_run()
        pieces, self.pieces = self.pieces, []
        if not self.has_out:
            self.has_out = True
            self.source.line(indent, f"out = [{', '.join(pieces)}]")
        elif len(pieces) == 1:
            self.source.line(indent, f"out.append({pieces[0]})")
        elif pieces:
            self.source.line(indent, f"out += {', '.join(pieces)}")

    def add(self, *pieces: str) -> None:
        """Add pieces behind the run."""
        self.end_run()
        self.pieces += pieces

    def size(self, size: Any, n: str, *, is_text: bool = False) -> str | None:
        """The piece that says a length or count held in name `n`; None if it went into the run."""
        if isinstance(size, shape.CompactSize):
            return f"sizes[{n}] if {n} < 127 else {_long_size(n, is_text=is_text)}"
        self.run.append((size.format, n))
        return None

    def value(self, subcon: Any, value: str, indent: int) -> None:
        """Write the value of expression `value`."""
        if isinstance(subcon, shape.Fixed):
            if subcon.type == "uuid":  # struct would pad and cut
                self.source.line(indent, f"if len({value}) != 16: raise Fault")
            self.run.append((subcon.format, value))
        elif isinstance(subcon, shape.Sized):
            self.sized(subcon, value, indent)
        elif isinstance(subcon, shape.Items):
            self.items(subcon, value, indent)
        elif isinstance(subcon, shape.Nullable):
            self.nullable(subcon, value, indent)
        elif isinstance(subcon, shape.RowTree):
            o = value if value.isidentifier() else self.source.name("o")
            if o != value:
                self.source.line(indent, f"{o} = {value}")
            self.row_tree(subcon, o, indent)
        else:
            raise TypeError(f"no code for {subcon!r}")

    def sized(self, subcon: shape.Sized, value: str, indent: int) -> None:
        if subcon.is_nullable:
            self.nullable_sized(subcon, value, indent)
            return
        v, n = self.source.name("v"), self.source.name("n")
        encode = ".encode()" if subcon.is_text else ""
        self.source.line(indent, f"{v} = {value}{encode}; {n} = len({v})")
        size = self.size(subcon.size, n, is_text=subcon.is_text)
        self.add(*((size, v) if size else (v,)))

    def nullable_sized(self, subcon: shape.Sized, value: str, indent: int) -> None:
        """Text or bytes that may be null: null and empty text, which are frequent, take short ways.

        In an array, where text is null or empty more often than not, length and text are one piece.
        """
        line = self.source.line
        v, n, size = self.source.name("v"), self.source.name("n"), self.source.name("size")
        is_one_piece = subcon.is_text and indent > 2
        line(indent, f"{v} = {value}")
        for test, short in (("is None", _null(subcon.size)), ("== ''", _empty(subcon.size)))[: 1 + subcon.is_text]:
            word = "if" if test == "is None" else "elif"
            line(
                indent,
                f"{word} {v} {test}: " + (f"{v} = {short!r}" if is_one_piece else f"{v} = b''; {size} = {short!r}"),
            )
        line(indent, "else:")
        encode = f"{v} = {v}.encode(); " if subcon.is_text else ""
        line(indent + 1, f"{encode}{n} = len({v})")
        if isinstance(subcon.size, shape.CompactSize):
            said = f"sizes[{n}] if {n} < 127 else {_long_size(n, is_text=subcon.is_text)}"
        else:
            layout = struct.Struct(">" + subcon.size.format)
            said = f"{self.source.global_(layout_name('pack', subcon.size.format), layout.pack)}({n})"
        if is_one_piece:
            line(indent + 1, f"{v} = ({said}) + {v}")
            self.add(v)
        else:
            line(indent + 1, f"{size} = {said}")
            self.add(size, v)

    def items(self, subcon: shape.Items, value: str, indent: int) -> None:
        line = self.source.line
        v, n = self.source.name("v"), self.source.name("n")
        line(indent, f"{v} = {value}")
        inner = indent
        if subcon.is_nullable:
            self.flush(indent)
            line(indent, f"if {v} is None: out.append({_null(subcon.size)!r})")
            line(indent, "else:")
            inner += 1
        if subcon.layout is not None:
            self.source.scope["Rows"] = Rows
            line(inner, f"{n} = {v}.length if {v}.__class__ is Rows else len({v})")  # a call in Python less
        else:
            line(inner, f"{n} = len({v})")
        size = self.size(subcon.size, n)
        if size:
            self.add(size)
        element = subcon.element
        if isinstance(element, shape.Fixed) and element.type != "uuid":
            self.fixed_items(element, v, n)
            if subcon.is_nullable:
                self.flush(inner)
            return
        one = self.source.name("one")
        self.flush(inner)
        if subcon.layout is not None:
            layout = self.source.constant("layout", subcon.layout)
            line(inner, f"if {v}.__class__ is Rows and {v}.layout is {layout}: out.append({v}.data); {v} = ()")
        line(inner, f"for {one} in {v}:")
        self.value(element, one, inner + 1)
        self.flush(inner + 1)

    def fixed_items(self, element: shape.Fixed, v: str, n: str) -> None:
        """An array of fixed-width values: one pack."""
        letter, source = element.format, self.source
        few = source.global_(layout_name("pack_few", letter), tuple(layout.pack for layout in small_layouts(letter)))
        source.scope |= {"pack": struct.pack, "struct_format": struct_format}
        many = f"pack(struct_format({letter!r}, {n}), *{v})"
        self.add(f"{few}[{n}](*{v}) if {n} < {SMALL} else {many}")

    def nullable(self, subcon: shape.Nullable, value: str, indent: int) -> None:
        line = self.source.line
        v = self.source.name("v")
        absent = b"\0" if subcon.is_tagged else b"\xff"
        line(indent, f"{v} = {value}")
        self.flush(indent)
        line(indent, f"if {v} is None: out.append({absent!r})")
        line(indent, "else:")
        self.run.append(("b", "1"))
        self.row_tree(subcon.subcon, v, indent + 1)
        self.flush(indent + 1)

    def row_tree(self, tree: shape.RowTree, o: str, indent: int) -> None:
        """Write the rows of the struct named `o`."""
        line = self.source.line
        line(indent, f"if {o}.unknown_tagged_fields: raise Fault")
        for row in tree.absent:
            if not row.ignorable:
                default = self.source.constant("default", shape.default_of(row))
                line(indent, f"if {self.differs(f'{o}.{row.name}', default)}: raise Fault")
        for row, subcon in tree.fields:
            self.value(subcon, f"{o}.{row.name}", indent)
        if tree.tagged is None:
            return
        if tree.tagged.known:
            self.tagged(tree.tagged, o, indent)
        else:
            self.run.append(("x", ""))

    @staticmethod
    def differs(value: str, default: str) -> str:
        """The test whether a value is not its default, which most often it is, and then the same object."""
        if default == "None":
            return f"{value} is not None"
        if default.isidentifier():
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def tagged(self, tagged: shape.Tagged, o: str, indent: int) -> None:
        """Write known tags. They are seldom there: then the section is one zero byte."""
        line = self.source.line
        known = sorted(tagged.known.items())
        section, sections, outer, data = (self.source.name(stem) for stem in ("section", "sections", "outer", "data"))
        tests = [
            self.differs(f"{o}.{row.name}", self.source.constant("default", shape.default_of(row)))
            for _, (row, _) in known
        ]
        self.end_run()
        pieces, self.pieces, had_out = self.pieces, [], self.has_out
        line(indent, rf'{section} = b"\0"')
        line(indent, f"if {' or '.join(tests)}:")
        indent += 1
        line(indent, f"{outer} = out; {sections} = []" if had_out else f"{sections} = []")
        self.has_out = True
        for (number, (row, subcon)), test in zip(known, tests, strict=True):
            line(indent, f"if {test}:")
            line(indent + 1, "out = []")
            self.value(subcon, f"{o}.{row.name}", indent + 1)
            self.flush(indent + 1)
            line(indent + 1, f'{data} = b"".join(out)')
            line(indent + 1, f"{sections}.append(uvarint({number}) + uvarint(len({data})) + {data})")
        line(indent, f'{section} = uvarint(len({sections})) + b"".join({sections})')
        if had_out:
            line(indent, f"out = {outer}")
        self.has_out = had_out
        self.pieces = [*pieces, section]


def _long_size(n: str, *, is_text: bool) -> str:
    """Code of the compact length of something long."""
    return f"text_size({n})" if is_text else f"uvarint({n} + 1)"


def _null(size: Any) -> bytes:
    """A null of this kind of length."""
    return b"\0" if isinstance(size, shape.CompactSize) else b"\xff" * int(size.width)


def _empty(size: Any) -> bytes:
    """A length of zero."""
    return b"\1" if isinstance(size, shape.CompactSize) else bytes(int(size.width))
