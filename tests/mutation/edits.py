"""Mutations that cosmic-ray does not know and that matter in a state machine: a statement left out, another error,
state or cause, half of a condition, the wrong clock.

Each is an `Edit`: text of the source that is replaced. Positions come from the standard library's own parser.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_OTHER_MEMBERS = {
    # class -> (what stands in for any member, what stands in for that one)
    "ErrorCode": ("UNKNOWN_SERVER_ERROR", "NONE"),
    "Cause": ("APPEND_FAILED", "MEMBER_JOINED"),
}
_NEXT_STATES = {
    "EMPTY": "STABLE",
    "PREPARING_REBALANCE": "EMPTY",
    "COMPLETING_REBALANCE": "PREPARING_REBALANCE",
    "STABLE": "COMPLETING_REBALANCE",
    "DEAD": "EMPTY",
}
_OTHER_CLOCKS = {"mono_ms": "wall_ms", "wall_ms": "mono_ms"}
_OTHER_EXTREMES = {"min": "max", "max": "min"}


class Edit(NamedTuple):
    """`source[start:end]` becomes `text`; offsets in characters."""

    operator: str
    start: int
    end: int
    text: str


def offsets_of_lines(source: str) -> list[int]:
    """Where each line begins; line 1 is at index 1."""
    offsets = [0, 0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def edits(source: str) -> list[Edit]:
    """All edits of a module, in the order of the source."""
    finder = _Finder(source)
    return sorted(set(finder.of(ast.parse(source))), key=lambda edit: (edit.start, edit.end, edit.operator, edit.text))


class _Finder:
    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.offsets = offsets_of_lines(source)

    def span(self, node: ast.expr | ast.stmt | ast.pattern) -> tuple[int, int]:
        """Where a node begins and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def offset(self, line: int, column_bytes: int) -> int:
        before = self.lines[line - 1].encode()[:column_bytes]
        return self.offsets[line] + len(before.decode())

    def of(self, tree: ast.Module) -> Iterator[Edit]:
        for node in ast.walk(tree):
            match node:
                case ast.stmt():
                    yield from self.statement(node)
                case ast.Attribute(value=ast.Name(id=owner), attr=name):
                    yield from self.attribute(node, owner, name)
                case ast.Attribute(attr=name) if name in _OTHER_CLOCKS:
                    yield from self.last_name(node, "SwapClocks", _OTHER_CLOCKS[name])
                case ast.Compare(ops=[ast.In() | ast.NotIn() as operator], left=left, comparators=[right]):
                    start, end = self.span(left)[1], self.span(right)[0]
                    between = self.source[start:end]
                    new = between.replace("not in", "in") if isinstance(operator, ast.NotIn) else f" not{between}"
                    yield Edit("kshim/NegateMembership", start, end, new)
                case ast.BoolOp(values=values):
                    yield from self.operands(values)
                case ast.Call(func=ast.Name(id=("min" | "max") as name) as function):
                    yield Edit("kshim/SwapMinMax", *self.span(function), _OTHER_EXTREMES[name])
                case _:
                    pass

    def statement(self, node: ast.stmt) -> Iterator[Edit]:
        match node:
            case ast.Expr(value=ast.Call()) | ast.Delete() | ast.Raise() | ast.AugAssign() | ast.Continue():
                pass
            case ast.Return(value=None):
                pass
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                pass
            case _:
                return
        yield Edit("kshim/DropStatement", *self.span(node), "pass")

    def attribute(self, node: ast.Attribute, owner: str, name: str) -> Iterator[Edit]:
        if owner in _OTHER_MEMBERS and name.isupper():
            usual, other = _OTHER_MEMBERS[owner]
            yield from self.last_name(node, f"Replace{owner}", other if name == usual else usual)
        elif owner == "GroupState" and name in _NEXT_STATES:
            yield from self.last_name(node, "ReplaceGroupState", _NEXT_STATES[name])
        elif name in _OTHER_CLOCKS:
            yield from self.last_name(node, "SwapClocks", _OTHER_CLOCKS[name])

    def last_name(self, node: ast.Attribute, operator: str, new: str) -> Iterator[Edit]:
        _, end = self.span(node)
        yield Edit(f"kshim/{operator}", end - len(node.attr), end, new)

    def operands(self, values: list[ast.expr]) -> Iterator[Edit]:
        """Leave out one operand of `and` or `or`, with the operator beside it."""
        spans = [self.span(value) for value in values]
        for index, (start, end) in enumerate(spans):
            if index == 0:
                yield Edit("kshim/DropOperand", start, spans[1][0], "")
            else:
                yield Edit("kshim/DropOperand", spans[index - 1][1], end, "")
