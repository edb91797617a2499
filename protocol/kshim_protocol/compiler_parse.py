"""Generates the parse function of one shape.

What makes it fast: fixed-width rows that stand side by side, lengths and tag counts included, are one `struct` call;
objects are made by `object.__new__`, those of an array all at once, and filled slot by slot; the offset is moved once
per value of unknown length and carries the fixed widths in front of it along. What makes it safe: counts are checked
against the bytes left before anything is made, and slices beyond the end are found by the next checked read or by the
check at the end. Where `max_elements` are given, arrays and unknown tags draw on one budget before they are made.
"""

from __future__ import annotations

import struct
from typing import Any

from kshim_protocol import shape
from kshim_protocol.compiler_source import (
    ODD,
    SMALL,
    Crowd,
    Source,
    layout_name,
    more_text,
    more_varint,
    small_layouts,
    struct_format,
    unknown_tags,
)
from kshim_protocol.frame import MAX_SECTION_TAGS
from kshim_protocol.rows import WORTH_ROWS, Rows


class ParseCode:
    """The code that parses one tree; `source` holds it.

    At every point of the function the next byte stands at `at + self.ahead`.
    """

    def __init__(self, tree: shape.RowTree, max_elements: int | None = None, *, is_lenient: bool = False) -> None:
        """`is_lenient`: malformed UTF-8 becomes U+FFFD here already, instead of making the function give up."""
        self.source = Source()
        self.max_elements = max_elements
        self.decode = '.decode("utf-8", "replace")' if is_lenient else ".decode()"
        self.run: list[tuple[str, int, str]] = []  # (format letters, width, target) of the pending fixed-width run
        self.ahead = 0
        self.is_checked = True  # the last read has proved that `at + ahead` is within the data
        self.needs_end = False
        source = self.source
        source.scope |= {
            "new": object.__new__,
            "odd": ODD,
            "Crowd": Crowd,
            "more_varint": more_varint,
            "more_text": more_text,
            "unknown_tags": unknown_tags,
        }
        source.line(0, "def parse(data, offset=0):")
        source.line(1, "at = offset")
        if max_elements is not None:
            source.line(1, f"budget = {max_elements}")
        source.line(1, "try:")
        first = len(source.lines)
        made = self.row_tree(tree, 2)
        self.flush(2)
        if not self.is_checked:
            self.needs_end = True
            source.line(2, f"if at{self.plus(self.ahead)} > end: raise Fault")
        source.line(2, f"return {made}, at{self.plus(self.ahead)}")
        source.line(1, "except faults as error:")
        source.line(2, "return explain(data, offset, error)")
        if self.needs_end:
            source.lines.insert(first, "        end = len(data)")

    @staticmethod
    def plus(count: int) -> str:
        return f" + {count}" if count else ""

    def fixed(self, letters: str, width: int, target: str) -> None:
        """Add a value of fixed width to the run."""
        self.run.append((letters, width, target))

    def flush(self, indent: int) -> None:
        """Emit the pending run as one unpack, or as one indexing if it is a single unsigned byte."""
        run, self.run = self.run, []
        if not run:
            return
        line = self.source.line
        if len(run) == 1 and run[0][0] == "B":
            line(indent, f"{run[0][2]} = data[at{self.plus(self.ahead)}]")
        else:
            skipped = f"{self.ahead}x" if self.ahead else ""
            letters = skipped + "".join(letter for letter, _, _ in run)
            layout = struct.Struct(">" + letters)
            unpack = self.source.global_(layout_name("unpack", letters), layout.unpack_from)
            targets = ", ".join(target for _, _, target in run)
            line(indent, f"{targets}{',' if len(run) == 1 else ''} = {unpack}(data, at)")
        self.ahead += sum(width for _, width, _ in run)
        self.is_checked = True

    def settle(self, indent: int) -> None:
        """Move `at` to the next byte, where ways through the code meet or part."""
        self.flush(indent)
        if self.ahead:
            self.source.line(indent, f"at += {self.ahead}")
            self.ahead = 0

    def size(self, size: Any, indent: int) -> str:
        """Read a length or count as it travels (a compact one is n + 1) into a new name; ends the run."""
        name = self.source.name("n")
        is_compact = isinstance(size, shape.CompactSize)
        self.fixed("B" if is_compact else size.format, 1 if is_compact else size.width, name)
        self.flush(indent)
        return name

    def value(self, subcon: Any, target: str, indent: int) -> None:
        """Read one value into `target`."""
        if isinstance(subcon, shape.Fixed):
            self.fixed(subcon.format, subcon.width, target)
        elif isinstance(subcon, shape.Sized):
            self.sized(subcon, target, indent)
        elif isinstance(subcon, shape.Items):
            self.items(subcon, target, indent)
        elif isinstance(subcon, shape.Nullable):
            self.nullable(subcon, target, indent)
        elif isinstance(subcon, shape.RowTree):
            made = self.row_tree(subcon, indent)
            self.source.line(indent, f"{target} = {made}")
        else:
            raise TypeError(f"no code for {subcon!r}")

    def open_value(self, subcon: shape.Sized | shape.Items, target: str, indent: int) -> tuple[str, int]:
        """Read the length of a value and settle null. Returns (name of the length as it travels, indent of the rest).

        The length is then known not to be null, and not to go on in further bytes.
        """
        line = self.source.line
        is_compact = isinstance(subcon.size, shape.CompactSize)
        n = self.size(subcon.size, indent)
        reader = "more_text" if isinstance(subcon, shape.Sized) and subcon.is_text else "more_varint"
        more = f"{n}, at = {reader}(data, at, {self.ahead}, {n})"
        if subcon.is_nullable:
            line(indent, f"if {n if is_compact else f'{n} >= 0'}:")
            if is_compact and reader == "more_varint":  # bytes, mostly of two-byte lengths: without a call for these
                second = self.source.name("second")
                line(indent + 1, f"if {n} > 127:")
                line(indent + 2, f"{second} = data[at{self.plus(self.ahead)}]")
                line(indent + 2, f"if 0 < {second} < 128: {n} = {n} & 127 | {second} << 7; at += 1")
                line(indent + 2, f"else: {more}")
            elif is_compact:
                line(indent + 1, f"if {n} > 127: {more}")
            return n, indent + 1
        line(indent, f"if odd[{n}]: {more}" if is_compact else f"if {n} < 0: raise Fault")
        return n, indent

    def close_value(self, subcon: shape.Sized | shape.Items, target: str, indent: int, ahead: int) -> None:
        """The other way through a nullable value: null, whose length alone has been read."""
        if subcon.is_nullable:
            self.source.line(indent, "else:")
            self.source.line(indent + 1, f"{target} = None; at += {ahead}")

    def sized(self, subcon: shape.Sized, target: str, indent: int) -> None:
        n, inner = self.open_value(subcon, target, indent)
        ahead, self.ahead, self.is_checked = self.ahead, 0, False
        decode = self.decode if subcon.is_text else ""
        if isinstance(subcon.size, shape.CompactSize):  # n counts itself: the value ends at `at + ahead + n - 1`
            piece = f"data[at + {ahead}:(at := at{self.plus(ahead - 1)} + {n})]"
        else:
            piece = f"data[(at := at + {ahead}):(at := at + {n})]"
        self.source.line(inner, f"{target} = {piece}{decode}")
        self.close_value(subcon, target, indent, ahead)

    def items(self, subcon: shape.Items, target: str, indent: int) -> None:
        line = self.source.line
        n, inner = self.open_value(subcon, target, indent)
        ahead = self.ahead
        self.settle(inner)
        if isinstance(subcon.size, shape.CompactSize):
            line(inner, f"{n} -= 1")
        self.needs_end = True
        line(inner, f"if {n} * {subcon.element_min_bytes} > end - at: raise Fault")
        self.spend(n, inner)
        element = subcon.element
        if isinstance(element, shape.Fixed):
            self.fixed_items(element, n, target, inner)
        elif isinstance(element, shape.RowTree):
            if subcon.layout is not None and self.max_elements is not None:
                self.kept_items(subcon, n, target, inner)
                inner += 1
            self.struct_items(element, n, target, inner)
        else:
            self.other_items(element, n, target, inner)
        self.close_value(subcon, target, indent, ahead)

    def spend(self, count: str, indent: int) -> None:
        """Take that many elements off the budget."""
        if self.max_elements is not None:
            self.source.line(indent, f"budget -= {count}")
            self.source.line(indent, "if budget < 0: raise Crowd")

    def fixed_items(self, element: shape.Fixed, n: str, target: str, indent: int) -> None:
        """An array of fixed-width values: one unpack."""
        letter, source = element.format, self.source
        few = source.global_(
            layout_name("unpack_few", letter), tuple(layout.unpack_from for layout in small_layouts(letter))
        )
        source.scope |= {"unpack_from": struct.unpack_from, "struct_format": struct_format}
        many = f"unpack_from(struct_format({letter!r}, {n}), data, at)"
        source.line(indent, f"{target} = {few}[{n}](data, at) if {n} < {SMALL} else {many}")
        source.line(indent, f"at += {element.width} * {n}")

    def struct_items(self, element: shape.RowTree, n: str, target: str, indent: int) -> None:
        """An array of structs: all made at once, then filled one by one."""
        line = self.source.line
        cls = self.source.constant(f"{element.cls.__name__}_", element.cls)
        self.source.global_(f"one_{cls}", (element.cls,))
        rows, one = self.source.name("rows"), self.source.name("o")
        # One or two are frequent, and then cheaper made by hand.
        line(indent, f"if {n} == 1: {rows} = (new({cls}),)")
        line(indent, f"elif {n} == 2: {rows} = (new({cls}), new({cls}))")
        line(indent, f"else: {rows} = tuple(map(new, one_{cls} * {n}))")
        line(indent, f"{target} = {rows}")
        line(indent, f"for {one} in {rows}:")
        self.fill(element, one, indent + 1)
        self.settle(indent + 1)

    def kept_items(self, subcon: shape.Items, n: str, target: str, indent: int) -> None:
        """The bytes of an array of several structs, where all text in it is empty or all null: then they are equally long,
        and stay bytes. What follows is for others."""
        element = subcon.element
        assert isinstance(element, shape.RowTree)
        line, name, width = self.source.line, self.source.name("kept"), element.min_bytes
        tests, at = [], 0
        for _, part in element.fields:
            if not isinstance(part, shape.Fixed):
                assert isinstance(part, shape.Sized), "rows hold no arrays and structs"
                first = f"{name}[{at}]" if part.is_nullable else str(int(isinstance(part.size, shape.CompactSize)))
                bytes_at = range(at, at + shape.min_bytes(part))
                tests += [f"{name}[{byte_at}::{width}].count({first}) == {n}" for byte_at in bytes_at]
                if part.is_nullable:
                    tests.append(f"{first} in {(0, 1) if isinstance(part.size, shape.CompactSize) else (0, 255)}")
            at += shape.min_bytes(part)
        if element.tagged is not None:
            tests.append(f"{name}[{at}::{width}].count(0) == {n}")
        self.source.scope["Rows"] = Rows
        layout = self.source.constant("layout", subcon.layout)
        kept = f"({name} := data[at:at + {width} * {n}])"
        line(indent, f"if {' and '.join([f'{n} >= {WORTH_ROWS}', kept, *tests])}:")
        line(indent + 1, f"{target} = Rows({layout}, {n}, {name}); at += {width} * {n}")
        line(indent, "else:")

    def other_items(self, element: Any, n: str, target: str, indent: int) -> None:
        """An array of strings or bytes."""
        line = self.source.line
        rows, one = self.source.name("rows"), self.source.name("one")
        line(indent, f"{rows} = []")
        line(indent, f"for _ in range({n}):")
        self.value(element, one, indent + 1)
        self.settle(indent + 1)
        line(indent + 1, f"{rows}.append({one})")
        line(indent, f"{target} = tuple({rows})")

    def nullable(self, subcon: shape.Nullable, target: str, indent: int) -> None:
        line = self.source.line
        presence = self.source.name("presence")
        self.fixed("B" if subcon.is_tagged else "b", 1, presence)
        self.settle(indent)
        if subcon.is_tagged:
            line(indent, f"if {presence} > 127: {presence}, at = more_varint(data, at, 0, {presence})")
            line(indent, f"if {presence} == 0: {target} = None")
        else:
            line(indent, f"if {presence} < 0: {target} = None")
        line(indent, "else:")
        made = self.row_tree(subcon.subcon, indent + 1)
        self.settle(indent + 1)
        line(indent + 1, f"{target} = {made}")
        self.is_checked = False

    def row_tree(self, tree: shape.RowTree, indent: int) -> str:
        """Read one struct; returns the name that holds it. May leave a run pending: its last fixed rows."""
        o = self.source.name("o")
        cls = self.source.constant(f"{tree.cls.__name__}_", tree.cls)
        self.flush(indent)
        self.source.line(indent, f"{o} = new({cls})")
        self.fill(tree, o, indent)
        return o

    def fill(self, tree: shape.RowTree, o: str, indent: int) -> None:
        """Read the rows of one struct into the object named `o`."""
        source, line = self.source, self.source.line
        known = [] if tree.tagged is None else [row for row, _ in tree.tagged.known.values()]
        for row in (*tree.absent, *known):
            line(indent, f"{o}.{row.name} = {source.constant('default', shape.default_of(row))}")
        line(indent, f"{o}.unknown_tagged_fields = ()")
        for row, subcon in tree.fields:
            self.value(subcon, f"{o}.{row.name}", indent)
        if tree.tagged is None:
            return
        if self.run:
            count = source.name("tags")
            self.fixed("B", 1, count)
            self.flush(indent)
        else:
            count = f"data[at{self.plus(self.ahead)}]"
            self.ahead += 1
            self.is_checked = True
        if tree.tagged.known:
            self.tagged(tree.tagged, o, count, indent)
        else:
            line(indent, f"if {count}:")
            line(indent + 1, f"{o}.unknown_tagged_fields, at = unknown_tags(data, at, {self.ahead})")
            self.spend(f"len({o}.unknown_tagged_fields)", indent + 1)

    def tagged(self, tagged: shape.Tagged, o: str, count: str, indent: int) -> None:
        """Read a tagged section some of whose tags are known, where there is one."""
        source, line = self.source, self.source.line
        tags, tag, size, stop, unknown = (source.name(stem) for stem in ("tags", "tag", "size", "stop", "unknown"))
        line(indent, f"{tags} = {count}")
        self.settle(indent)
        self.needs_end = True
        line(indent, f"if {tags}:")
        indent += 1
        line(indent, f"if {tags} > 127: {tags}, at = more_varint(data, at, 0, {tags})")
        line(indent, f"if {tags} > {MAX_SECTION_TAGS}: raise Crowd")
        line(indent, f"{unknown} = []")
        line(indent, f"for _ in range({tags}):")
        indent += 1
        for name in (tag, size):
            line(indent, f"{name} = data[at]; at += 1")
            line(indent, f"if {name} > 127: {name}, at = more_varint(data, at, 0, {name})")
        line(indent, f"{stop} = at + {size}")
        line(indent, f"if {stop} > end: raise Fault")
        word = "if"
        for number, (row, subcon) in tagged.known.items():
            line(indent, f"{word} {tag} == {number}:")
            self.value(subcon, f"{o}.{row.name}", indent + 1)
            self.settle(indent + 1)
            line(indent + 1, f"if at != {stop}: raise Fault")
            word = "elif"
        line(indent, f"else: {unknown}.append(({tag}, data[at:{stop}])); at = {stop}")
        self.spend(f"len({unknown})", indent - 1)
        line(indent - 1, f"{o}.unknown_tagged_fields = tuple({unknown})")
        self.is_checked = True
