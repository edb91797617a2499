"""From a construct tree to plain, specialised Python: one function to parse, one to build.

What makes it fast: fixed-width rows that stand side by side (lengths and tag counts included) are one `struct` call;
objects are made with `object.__new__` and filled slot by slot; everything is a local name. What makes it safe: counts
are checked against the bytes left before anything is made, slices beyond the end are found by one check at the end,
and whatever goes wrong is handed to the interpreted tree, which knows the field and the offset.
Generated source is registered in linecache, so that tracebacks show it.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any

from kshim_protocol import wire
from kshim_protocol.frame import MAX_VARINT_BYTES

__all__ = ["compile_build", "compile_parse", "source_of_build", "source_of_parse"]

PARSE_FAULTS = (struct.error, IndexError, ValueError, OverflowError)
BUILD_FAULTS = (struct.error, AttributeError, TypeError, ValueError, OverflowError, IndexError)

ONE_BYTE = tuple(bytes((n,)) for n in range(128))


class Fault(ValueError):
    """Generated code met what it does not handle; the interpreted tree takes over."""


def more_varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte is already read and not in 1..127. Returns (value, offset).

    Faults on zero: a compact null where none may be, or a zero written in more bytes than it needs.
    """
    if first == 0:
        raise Fault
    value = first & 0x7F
    for i in range(1, MAX_VARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if not value:
                raise Fault
            return value, at
    raise Fault


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Source:
    """Lines of a function in the making, and the objects its code names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"new": object.__new__, "Fault": Fault, "uvarint": uvarint, "one_byte": ONE_BYTE}
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, stem: str, value: object) -> str:
        if value is None or isinstance(value, (int, bool)) or value in ("", b"", ()):
            return repr(value)
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.name(stem)
        self.scope[name] = value
        return name

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)


class Parse:
    """Generates the parse function of one tree."""

    def __init__(self, tree: wire.RowTree) -> None:
        self.source = Source()
        self.run: list[tuple[str, int, str]] = []  # (format letter, width, target) of the pending fixed-width run
        self.source.scope["more_varint"] = more_varint
        self.source.line(0, "def parse(data, offset=0):")
        self.source.line(1, "at = offset")
        self.source.line(1, "try:")
        self.source.line(2, "end = len(data)")
        target = self.row_tree(tree, 2)
        self.flush(2)
        self.source.line(2, "if at > end: raise Fault")
        self.source.line(2, f"return {target}, at")
        self.source.line(1, "except faults as error:")
        self.source.line(2, "return explain(data, offset, error)")

    def flush(self, indent: int) -> None:
        """Emit the pending run as one unpack (or one indexing, if it is a single unsigned byte)."""
        run, self.run = self.run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self.source.line(indent, f"{run[0][2]} = data[at]; at += 1")
            return
        layout = struct.Struct(">" + "".join(letter for letter, _, _ in run))
        unpack = self._unpack(layout)
        targets = ", ".join(target for _, _, target in run)
        comma = "," if len(run) == 1 else ""
        self.source.line(indent, f"{targets}{comma} = {unpack}(data, at); at += {layout.size}")

    def _unpack(self, layout: struct.Struct) -> str:
        name = "unpack_" + layout.format[1:].replace("?", "t")
        self.source.scope[name] = layout.unpack_from
        return name

    def fixed(self, letter: str, width: int, target: str) -> None:
        self.run.append((letter, width, target))

    def size(self, size: Any, indent: int, stem: str) -> tuple[str, str, str]:
        """Read a length or count; ends the pending run.

        Returns (name that holds it as it travels, test for null, expression of the length): a compact one travels as
        n + 1.
        """
        name = self.source.name(stem)
        is_compact = isinstance(size, wire.CompactSize)
        self.fixed("B" if is_compact else size.format, 1 if is_compact else size.width, name)
        self.flush(indent)
        if is_compact:
            return name, f"not {name}", f"{name} - 1"
        return name, f"{name} < 0", name

    def value(self, subcon: Any, target: str, indent: int) -> None:
        """Read one value into `target`."""
        if isinstance(subcon, wire.Fixed):
            self.fixed(subcon.format, subcon.width, target)
        elif isinstance(subcon, wire.Sized):
            self.sized(subcon, target, indent)
        elif isinstance(subcon, wire.Items):
            self.items(subcon, target, indent)
        elif isinstance(subcon, wire.Nullable):
            self.nullable(subcon, target, indent)
        elif isinstance(subcon, wire.RowTree):
            made = self.row_tree(subcon, indent)
            self.source.line(indent, f"{target} = {made}")
        else:
            raise TypeError(f"no code for {subcon!r}")

    def open_value(self, subcon: wire.Sized | wire.Items, target: str, indent: int) -> tuple[str, int]:
        """Read the length of a value and settle null. Returns (expression of the length, indent of what follows)."""
        line = self.source.line
        n, is_null, length = self.size(subcon.size, indent, "n")
        is_compact = isinstance(subcon.size, wire.CompactSize)
        if subcon.is_nullable:
            line(indent, f"if {is_null}: {target} = None")
            line(indent, "else:")
            indent += 1
            if is_compact:
                line(indent, f"if {n} > 127: {n}, at = more_varint(data, at, {n})")
        elif is_compact:
            line(indent, f"if not 0 < {n} < 128: {n}, at = more_varint(data, at, {n})")
        else:
            line(indent, f"if {is_null}: raise Fault")
        return length, indent

    def sized(self, subcon: wire.Sized, target: str, indent: int) -> None:
        length, indent = self.open_value(subcon, target, indent)
        decode = ".decode()" if subcon.is_text else ""
        self.source.line(indent, f"{target} = data[at:(at := at + {length})]{decode}")

    def items(self, subcon: wire.Items, target: str, indent: int) -> None:
        line = self.source.line
        length, indent = self.open_value(subcon, target, indent)
        n = self.source.name("count")
        line(indent, f"{n} = {length}")
        line(indent, f"if {n} * {subcon.element_min_bytes} > end - at: raise Fault")
        element = subcon.element
        if isinstance(element, wire.Fixed):
            self.source.scope["unpack_from"] = struct.unpack_from
            layout = _repeated(element, n)
            line(indent, f"{target} = unpack_from({layout}, data, at); at += {element.width} * {n}")
            return
        rows, push, one = self.source.name("rows"), self.source.name("push"), self.source.name("one")
        line(indent, f"{rows} = []; {push} = {rows}.append")
        line(indent, f"for _ in range({n}):")
        if isinstance(element, wire.RowTree):
            one = self.row_tree(element, indent + 1)
        else:
            self.value(element, one, indent + 1)
        self.flush(indent + 1)
        line(indent + 1, f"{push}({one})")
        line(indent, f"{target} = tuple({rows})")

    def nullable(self, subcon: wire.Nullable, target: str, indent: int) -> None:
        line = self.source.line
        presence = self.source.name("presence")
        if subcon.is_tagged:
            self.fixed("B", 1, presence)
            self.flush(indent)
            line(indent, f"if {presence} > 127: {presence}, at = more_varint(data, at, {presence})")
            line(indent, f"if {presence} == 0: {target} = None")
        else:
            self.fixed("b", 1, presence)
            self.flush(indent)
            line(indent, f"if {presence} < 0: {target} = None")
        line(indent, "else:")
        made = self.row_tree(subcon.subcon, indent + 1)
        self.flush(indent + 1)
        line(indent + 1, f"{target} = {made}")

    def row_tree(self, tree: wire.RowTree, indent: int) -> str:
        """Read one struct; returns the name that holds it. Leaves a run pending only for its last fixed rows."""
        source, line = self.source, self.source.line
        cls = source.constant(f"{tree.cls.__name__}_", tree.cls)
        o = source.name("o")
        self.flush(indent)
        line(indent, f"{o} = new({cls})")
        for row in tree.absent:
            line(indent, f"{o}.{row.name} = {source.constant('default', wire.default_of(row))}")
        if tree.tagged is not None:
            for row, _ in tree.tagged.known.values():
                line(indent, f"{o}.{row.name} = {source.constant('default', wire.default_of(row))}")
        for row, subcon in tree.fields:
            self.value(subcon, f"{o}.{row.name}", indent)
        line_unknown = f"{o}.unknown_tagged_fields = ()"
        if tree.tagged is None:
            line(indent, line_unknown)
            return o
        count = source.name("tags")
        self.fixed("B", 1, count)
        self.flush(indent)
        line(indent, line_unknown)
        line(indent, f"if {count}:")
        self.tagged(tree.tagged, o, count, indent + 1)
        return o

    def tagged(self, tagged: wire.Tagged, o: str, count: str, indent: int) -> None:
        source, line = self.source, self.source.line
        tag, size, stop, unknown = (source.name(stem) for stem in ("tag", "size", "stop", "unknown"))
        line(indent, f"if {count} > 127: {count}, at = more_varint(data, at, {count})")
        line(indent, f"if {count} * 2 > end - at: raise Fault")
        line(indent, f"{unknown} = []")
        line(indent, f"for _ in range({count}):")
        indent += 1
        for name in (tag, size):
            line(indent, f"{name} = data[at]; at += 1")
            line(indent, f"if {name} > 127: {name}, at = more_varint(data, at, {name})")
        line(indent, f"{stop} = at + {size}")
        line(indent, f"if {stop} > end: raise Fault")
        word = "if"
        for number, (row, subcon) in tagged.known.items():
            line(indent, f"{word} {tag} == {number}:")
            self.value(subcon, f"{o}.{row.name}", indent + 1)
            self.flush(indent + 1)
            line(indent + 1, f"if at != {stop}: raise Fault")
            word = "elif"
        if tagged.known:
            line(indent, f"else: {unknown}.append(({tag}, data[at:{stop}])); at = {stop}")
        else:
            line(indent, f"{unknown}.append(({tag}, data[at:{stop}])); at = {stop}")
        line(indent - 1, f"{o}.unknown_tagged_fields = tuple({unknown})")


class Build:
    """Generates the build function of one tree. Messages with unknown tagged fields are left to construct.

    Pieces of output are gathered as expressions and joined in one go; control flow forces them out to a list.
    """

    def __init__(self, tree: wire.RowTree) -> None:
        self.source = Source()
        self.source.scope["sizes"] = ONE_BYTE[1:]
        self.run: list[tuple[str, str]] = []  # (format letters, value) of the pending fixed-width run
        self.pieces: list[str] = []  # expressions of bytes not yet emitted
        self.source.line(0, "def build(o):")
        self.source.line(1, "try:")
        self.row_tree(tree, "o", 2)
        self.end_run()
        if any("out" in line for line in self.source.lines[2:]):
            self.source.lines.insert(2, "        out = []; push = out.append")
            self.flush(2)
            self.source.line(2, 'return b"".join(out)')
        elif len(self.pieces) == 1:
            self.source.line(2, f"return {self.pieces[0]}")
        else:
            self.source.line(2, f'return b"".join(({", ".join(self.pieces)}))')
        self.source.line(1, "except faults as error:")
        self.source.line(2, "return explain(o, error)")

    def end_run(self) -> None:
        """Turn the pending run into one piece."""
        run, self.run = self.run, []
        if not run:
            return
        letters = "".join(letter for letter, _ in run)
        if letters == "x":
            self.pieces.append(r'b"\0"')
            return
        name = "pack_" + letters.replace("?", "t")
        self.source.scope[name] = struct.Struct(">" + letters).pack
        self.pieces.append(f"{name}({', '.join(value for _, value in run if value)})")

    def flush(self, indent: int) -> None:
        """Emit everything pending, before control flow or at the end of a block."""
        self.end_run()
        pieces, self.pieces = self.pieces, []
        if len(pieces) == 1:
            self.source.line(indent, f"push({pieces[0]})  # out")
        elif pieces:
            self.source.line(indent, f"out += ({', '.join(pieces)})")

    def size(self, size: Any, n: str) -> None:
        """Write a length or count held in name `n`."""
        if isinstance(size, wire.CompactSize):
            self.end_run()
            self.pieces.append(f"sizes[{n}] if {n} < 127 else uvarint({n} + 1)")
        else:
            self.run.append((size.format, n))

    def value(self, subcon: Any, value: str, indent: int) -> None:
        """Write the value of expression `value`."""
        if isinstance(subcon, wire.Fixed):
            if subcon.type == "uuid":
                self.source.line(indent, f"if len({value}) != 16: raise Fault")
            self.run.append((subcon.format, value))
        elif isinstance(subcon, wire.Sized):
            self.sized(subcon, value, indent)
        elif isinstance(subcon, wire.Items):
            self.items(subcon, value, indent)
        elif isinstance(subcon, wire.Nullable):
            self.nullable(subcon, value, indent)
        elif isinstance(subcon, wire.RowTree):
            self.row_tree(subcon, value, indent)
        else:
            raise TypeError(f"no code for {subcon!r}")

    def sized(self, subcon: wire.Sized, value: str, indent: int) -> None:
        line = self.source.line
        v, n = self.source.name("v"), self.source.name("n")
        encode = ".encode()" if subcon.is_text else ""
        if not subcon.is_nullable:
            line(indent, f"{v} = {value}{encode}; {n} = len({v})")
            self.size(subcon.size, n)
            self.end_run()
            self.pieces.append(v)
            return
        size = self.source.name("size")
        line(indent, f"{v} = {value}")
        line(indent, f"if {v} is None: {v} = b''; {size} = {_null(subcon.size)!r}")
        line(indent, "else:")
        line(indent + 1, f"{v} = {v}{encode}; {n} = len({v})" if encode else f"{n} = len({v})")
        if isinstance(subcon.size, wire.CompactSize):
            line(indent + 1, f"{size} = sizes[{n}] if {n} < 127 else uvarint({n} + 1)")
        else:
            self.source.scope[f"pack_{subcon.size.format}"] = struct.Struct(">" + subcon.size.format).pack
            line(indent + 1, f"{size} = pack_{subcon.size.format}({n})")
        self.end_run()
        self.pieces += (size, v)

    def items(self, subcon: wire.Items, value: str, indent: int) -> None:
        line = self.source.line
        v, n, one = self.source.name("v"), self.source.name("n"), self.source.name("one")
        line(indent, f"{v} = {value}")
        if subcon.is_nullable:
            self.flush(indent)
            line(indent, f"if {v} is None: push({_null(subcon.size)!r})  # out")
            line(indent, "else:")
            indent += 1
        line(indent, f"{n} = len({v})")
        self.size(subcon.size, n)
        element = subcon.element
        if isinstance(element, wire.Fixed) and element.type != "uuid":
            self.source.scope["pack"] = struct.pack
            self.end_run()
            self.pieces.append(f"pack({_repeated(element, n)}, *{v})")
            if subcon.is_nullable:
                self.flush(indent)
            return
        self.flush(indent)
        line(indent, f"for {one} in {v}:")
        self.value(element, one, indent + 1)
        self.flush(indent + 1)

    def nullable(self, subcon: wire.Nullable, value: str, indent: int) -> None:
        line = self.source.line
        v = self.source.name("v")
        absent = b"\0" if subcon.is_tagged else b"\xff"
        line(indent, f"{v} = {value}")
        self.flush(indent)
        line(indent, f"if {v} is None: push({absent!r})  # out")
        line(indent, "else:")
        self.run.append(("b", "1"))
        self.row_tree(subcon.subcon, v, indent + 1)
        self.flush(indent + 1)

    def row_tree(self, tree: wire.RowTree, value: str, indent: int) -> None:
        line = self.source.line
        if value.isidentifier():
            o = value
        else:
            o = self.source.name("o")
            line(indent, f"{o} = {value}")
        cls = self.source.constant(f"{tree.cls.__name__}_", tree.cls)
        if indent == 2:
            line(indent, f"if {o}.__class__ is not {cls} or {o}.unknown_tagged_fields: raise Fault")
        else:
            line(indent, f"if {o}.unknown_tagged_fields: raise Fault")
        for row in tree.absent:
            if not row.ignorable:
                default = self.source.constant("default", wire.default_of(row))
                line(indent, f"if {o}.{row.name} != {default}: raise Fault")
        for row, subcon in tree.fields:
            self.value(subcon, f"{o}.{row.name}", indent)
        if tree.tagged is None:
            return
        if tree.tagged.known:
            self.tagged(tree.tagged, o, indent)
        else:
            self.run.append(("x", ""))

    def tagged(self, tagged: wire.Tagged, o: str, indent: int) -> None:
        """Known tags: sections are gathered in order, each built by its own joined list."""
        line = self.source.line
        self.flush(indent)
        known = sorted(tagged.known.items())
        defaults = [self.source.constant("default", wire.default_of(row)) for _, (row, _) in known]
        tests = " and ".join(
            f"{o}.{row.name} {'is' if default == 'None' else '=='} {default}"
            for (_, (row, _)), default in zip(known, defaults, strict=True)
        )
        line(indent, rf'if {tests}: push(b"\0")  # out')
        line(indent, "else:")
        indent += 1
        outer, sections, data = (self.source.name(stem) for stem in ("outer", "sections", "data"))
        line(indent, f"{outer} = out; {sections} = []")
        for (number, (row, subcon)), default in zip(known, defaults, strict=True):
            line(indent, f"if {o}.{row.name} != {default}:")
            line(indent + 1, "out = []; push = out.append")
            self.value(subcon, f"{o}.{row.name}", indent + 1)
            self.flush(indent + 1)
            line(indent + 1, f'{data} = b"".join(out)')
            line(indent + 1, f"{sections}.append(uvarint({number}) + uvarint(len({data})) + {data})")
        line(indent, f"out = {outer}; push = out.append")
        line(indent, f"push(uvarint(len({sections}))); out += {sections}")


def _null(size: Any) -> bytes:
    """A null of this kind of length."""
    return b"\0" if isinstance(size, wire.CompactSize) else b"\xff" * int(size.width)


def _repeated(element: wire.Fixed, n: str) -> str:
    """Code of the struct format of `n` such values."""
    if element.width == 16:
        return f"'>' + '16s' * {n}"
    return f"f'>{{{n}}}{element.format}'"


def source_of_parse(tree: wire.RowTree) -> str:
    """The Python that `compile_parse` runs, to read."""
    return "\n".join(Parse(tree).source.lines) + "\n"


def source_of_build(tree: wire.RowTree) -> str:
    """The Python that `compile_build` runs, to read."""
    return "\n".join(Build(tree).source.lines) + "\n"


def compile_parse(tree: wire.RowTree, name: str, explain: Callable[[bytes, int, Exception], Any]) -> Callable[..., Any]:
    """`parse(data, offset=0) -> (object, end)`; `explain(data, offset, error)` takes over when it gives up."""
    parse: Callable[..., Any] = _load(Parse(tree).source, "parse", name, PARSE_FAULTS, explain)
    return parse


def compile_build(tree: wire.RowTree, name: str, explain: Callable[[Any, Exception], bytes]) -> Callable[..., Any]:
    """`build(object) -> bytes`; `explain(object, error)` takes over when it gives up."""
    build: Callable[..., Any] = _load(Build(tree).source, "build", name, BUILD_FAULTS, explain)
    return build


def _load(source: Source, function: str, name: str, faults: tuple[type[Exception], ...], explain: Any) -> Any:
    text = "\n".join(source.lines) + "\n"
    filename = f"<kshim_protocol {function} {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope = source.scope
    scope["faults"] = faults
    scope["explain"] = explain
    exec(compile(text, filename, "exec"), scope)  # our own text, made from our own tables
    return scope[function]
