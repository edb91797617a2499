"""All mutants of a folder of modules, each under a name that survives changes elsewhere in the file.

`join_group.py:_Join.park:core/ReplaceComparisonOperator_IsNot_Is:0` is the first place in that method where that
operator applies. What an explanation is about is also pinned by the changed lines themselves (`Mutant.change`).
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests.mutation.edits import edits, offsets_of_lines

HERE = Path(__file__).parent
_NAMED_WITH_FOLDER = ("share", "share_state", "streams")
"""Folders whose modules have the names of others, which came first and keep theirs."""
EXCLUDED_FOLDER = "transactions"  # its tests are of another kind: whole runs with crashes


class Exclusion:
    """A kind of mutant that is not judged, and why. Patterns that are given must all match."""

    def __init__(self, *, reason: str, operator: str = "", place: str = "", file: str = "", line: str = "") -> None:
        self.reason = reason
        self._operator = re.compile(operator)
        self._place = place
        self._file = re.compile(file)
        self._line = re.compile(line)

    def covers(self, mutant: Mutant) -> bool:
        """Whether the mutant is of this kind."""
        return bool(
            (not self._operator.pattern or self._operator.fullmatch(mutant.operator))
            and (not self._place or self._place == mutant.place)
            and (not self._file.pattern or self._file.fullmatch(mutant.module.name))
            and (not self._line.pattern or self._line.search(mutant.line))
        )


def load_exclusions() -> list[Exclusion]:
    """The kinds in `excluded.toml`."""
    return [Exclusion(**entry) for entry in tomllib.loads((HERE / "excluded.toml").read_text())["excluded"]]


class _Span(NamedTuple):
    start_line: int
    end_line: int
    name: str


class Module:
    """One module: its source and which function each line is in."""

    def __init__(self, path: Path, file: str) -> None:
        self.path = path
        self.file = file  # below the folder of all modules
        self.name = f"{path.parent.name}/{path.name}" if path.parent.name in _NAMED_WITH_FOLDER else path.name
        self.source = path.read_text(encoding="utf-8")
        self.lines = self.source.splitlines()
        self.line_offsets = offsets_of_lines(self.source)
        tree = ast.parse(self.source)
        self._functions = list(_functions(tree, ""))
        self._annotations = [_span(node) for node in _annotations(tree)]
        self._asserts = [_span(node) for node in ast.walk(tree) if isinstance(node, ast.Assert)]

    def function_at(self, line: int) -> str:
        """The function or method around a line, as in `_Join.park`; "" outside. Nested ones count as the outer."""
        return next((span.name for span in self._functions if span.start_line <= line <= span.end_line), "")

    def place_of(self, start: tuple[int, int]) -> str:
        """What kind of code is at (line, column): `annotation`, `assert` or `code`."""
        for place, spans in (("annotation", self._annotations), ("assert", self._asserts)):
            if any(first <= start < last for first, last in spans):
                return place
        return "code"


def _functions(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[_Span]:
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield _Span(first, node.end_lineno or first, prefix + node.name)
            case ast.ClassDef():
                yield from _functions(node, f"{prefix}{node.name}.")
            case _:
                pass


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield annotation
            case _:
                pass


def _span(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


class Mutant:
    """One change of one module."""

    def __init__(
        self, module: Module, operator: str, occurrence: int, start: tuple[int, int], make: Callable[[], str | None]
    ) -> None:
        self.module = module
        self.operator = operator
        self.function = module.function_at(start[0])
        self.place = module.place_of(start)
        self.line = module.lines[start[0] - 1]
        self.name = f"{module.name}:{self.function}:{operator}:{occurrence}"
        self._make = make

    @cached_property
    def source(self) -> str | None:
        """The module with the change; None when that is no Python or changes nothing."""
        source = self._make()
        if source is None or source == self.module.source:
            return None
        try:
            if ast.dump(ast.parse(source)) == ast.dump(ast.parse(self.module.source)):
                return None
        except SyntaxError:
            return None
        return source

    @cached_property
    def diff(self) -> list[str]:
        """The lines that change, with `-` and `+`."""
        lines = difflib.unified_diff(self.module.lines, (self.source or "").splitlines(), n=0, lineterm="")
        return [line for line in list(lines)[2:] if not line.startswith("@@")]

    @property
    def change(self) -> str:
        """The same in one line, without indentation."""
        return " ".join(f"{line[0]} {line[1:].strip()}" for line in self.diff)

    def rank(self, seed: int) -> str:
        """Mutants with the lowest ranks are the sample: changes elsewhere do not draw other mutants."""
        return hashlib.sha256(f"{seed}:{self.name}".encode()).hexdigest()


def mutants_of(directory: Path) -> Iterator[Mutant]:
    """All mutants of the modules in a folder and below, excluded ones too. No two modules have one name."""
    for path in sorted(directory.rglob("*.py")):
        if EXCLUDED_FOLDER in path.relative_to(directory).parts:
            continue
        module = Module(path, path.relative_to(directory).as_posix())
        yield from _of_cosmic_ray(module)
        yield from _of_edits(module)


def _of_cosmic_ray(module: Module) -> Iterator[Mutant]:
    nodes = list(ast_nodes(get_ast(module.source)))
    for operator_name in cosmic_ray.plugins.operator_names():
        operator_class = cosmic_ray.plugins.get_operator(operator_name)
        if operator_class.arguments():
            continue  # replaces variables that would have to be named
        operator = operator_class()
        occurrences: Counter[str] = Counter()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for index, start in enumerate(starts):
            function = module.function_at(start[0])
            yield Mutant(
                module, operator_name, occurrences[function], start, _cosmic_ray_source(module, operator_class, index)
            )
            occurrences[function] += 1


def _cosmic_ray_source(module: Module, operator_class: Callable[[], object], index: int) -> Callable[[], str | None]:
    return lambda: mutate_code(module.source, operator_class(), index)


def _of_edits(module: Module) -> Iterator[Mutant]:
    occurrences: Counter[tuple[str, str]] = Counter()
    line = 1
    for edit in edits(module.source):
        while line + 1 < len(module.line_offsets) and module.line_offsets[line + 1] <= edit.start:
            line += 1
        function = module.function_at(line)
        source = module.source[: edit.start] + edit.text + module.source[edit.end :]
        start = (line, edit.start - module.line_offsets[line])
        yield Mutant(module, edit.operator, occurrences[function, edit.operator], start, _constant(source))
        occurrences[function, edit.operator] += 1


def _constant(source: str) -> Callable[[], str]:
    return lambda: source
