"""From the shape of a message to plain, specialised Python: one function to parse, one to build, made on first use.

`compiler_parse.py` and `compiler_build.py` write them; construct's tree stays the codec of record. Whatever goes
wrong in generated code is handed to the interpreted tree, which knows the field and the offset. Generated source is
registered in linecache, so that tracebacks show it.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any

from kshim_protocol import shape
from kshim_protocol.compiler_build import BuildCode
from kshim_protocol.compiler_parse import ParseCode
from kshim_protocol.compiler_source import Source

PARSE_FAULTS = (struct.error, IndexError, ValueError, OverflowError)
BUILD_FAULTS = (struct.error, AttributeError, TypeError, ValueError, OverflowError, IndexError)


def source_of_parse(tree: shape.RowTree) -> str:
    """The Python that `compile_parse` runs, to read."""
    return ParseCode(tree).source.text()


def source_of_build(tree: shape.RowTree) -> str:
    """The Python that `compile_build` runs, to read."""
    return BuildCode(tree).source.text()


def compile_parse(
    tree: shape.RowTree,
    name: str,
    explain: Callable[[bytes, int, Exception], Any],
    *,
    max_elements: int | None = None,
    is_lenient: bool = False,
) -> Callable[..., Any]:
    """`parse(data, offset=0) -> (object, end)`; `explain(data, offset, error)` takes over when it gives up."""
    source = ParseCode(tree, max_elements, is_lenient=is_lenient).source
    return _load(source, "parse", name, PARSE_FAULTS, explain)


def compile_build(tree: shape.RowTree, name: str, explain: Callable[[Any, Exception], bytes]) -> Callable[..., Any]:
    """`build(object) -> bytes`; `explain(object, error)` takes over when it gives up."""
    return _load(BuildCode(tree).source, "build", name, BUILD_FAULTS, explain)


def compile_build_pieces(
    tree: shape.RowTree, name: str, explain: Callable[[Any, Exception], list[bytes]]
) -> Callable[..., list[bytes]]:
    """The same in pieces: what they are joined to is the message."""
    return _load(BuildCode(tree, in_pieces=True).source, "build", name, BUILD_FAULTS, explain)


def _load(
    source: Source, function: str, name: str, faults: tuple[type[Exception], ...], explain: object
) -> Callable[..., Any]:
    text = source.text()
    filename = f"<kshim_protocol {function} {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    source.scope |= {"faults": faults, "explain": explain}
    exec(compile(text, filename, "exec"), source.scope)  # our own text, made from our own tables
    loaded: Callable[..., Any] = source.scope[function]
    return loaded
