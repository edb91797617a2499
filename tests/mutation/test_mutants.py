"""The mutation run itself: which mistakes it makes, under which names, and that the explanations are about them."""

from __future__ import annotations

import textwrap
import tomllib
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="needs the extra `mutation`")

from tests.mutation.edits import edits
from tests.mutation.mutants import HERE, Mutant, load_exclusions, mutants_of

COORDINATOR = HERE.parents[1] / "shim" / "kshim" / "coordinator"
KINDS = {"equivalent", "performance"}


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    """All mutants of the coordinator."""
    return list(mutants_of(COORDINATOR))


def changed(source: str) -> set[tuple[str, str]]:
    """(operator, source after it) of all edits."""
    return {
        (edit.operator.removeprefix("kshim/"), source[: edit.start] + edit.text + source[edit.end :])
        for edit in edits(source)
    }


@pytest.mark.parametrize(
    ("source", "operator", "mutated"),
    [
        ("forget(group)", "DropStatement", "pass"),
        ("group.state = 1", "DropStatement", "pass"),
        ("del groups[key]", "DropStatement", "pass"),
        ("raise KafkaError", "DropStatement", "pass"),
        ("count += 1", "DropStatement", "pass"),
        ("x = ErrorCode.FENCED_INSTANCE_ID", "ReplaceErrorCode", "x = ErrorCode.UNKNOWN_SERVER_ERROR"),
        ("x = ErrorCode.UNKNOWN_SERVER_ERROR", "ReplaceErrorCode", "x = ErrorCode.NONE"),
        ("x = Cause.EXPIRED", "ReplaceCause", "x = Cause.APPEND_FAILED"),
        ("x = GroupState.STABLE", "ReplaceGroupState", "x = GroupState.COMPLETING_REBALANCE"),
        ("x = now.mono_ms", "SwapClocks", "x = now.wall_ms"),
        ("x = self.now.wall_ms", "SwapClocks", "x = self.now.mono_ms"),
        ("x = a in b", "NegateMembership", "x = a not in b"),
        ("x = a not in b", "NegateMembership", "x = a in b"),
        ("x = a and b", "DropOperand", "x = a"),
        ("x = a and b", "DropOperand", "x = b"),
        ("x = min(a, b)", "SwapMinMax", "x = max(a, b)"),
    ],
)
def test_an_edit_makes_one_mistake(source: str, operator: str, mutated: str) -> None:
    assert (operator, mutated) in changed(source)


@pytest.mark.parametrize("source", ['"""A docstring."""', "x = 1", "return_value = f(x)", "x = ErrorCode(3)"])
def test_some_statements_are_left_alone(source: str) -> None:
    assert changed(source) == set()


def names_in(directory: Path, source: str) -> dict[str, str]:
    """Name -> change of all mutants of one module."""
    (directory / "module.py").write_text(textwrap.dedent(source))
    return {mutant.name: mutant.change for mutant in mutants_of(directory) if mutant.source is not None}


def test_a_mutant_keeps_its_name_when_the_file_changes_elsewhere(tmp_path: Path) -> None:
    function = """
        class Group:
            def is_full(self, size):
                return size >= 3 and self.max_size == 4
        """
    before = names_in(tmp_path, function)
    after = names_in(tmp_path, "def other(a):\n    return a >= 7\n" + textwrap.dedent(function))
    assert before["module.py:Group.is_full:core/ReplaceComparisonOperator_GtE_Lt:0"] == (
        "- return size >= 3 and self.max_size == 4 + return size < 3 and self.max_size == 4"
    )
    assert before.items() <= after.items()
    assert any(name.startswith("module.py:other:") for name in after.keys() - before.keys())


def test_what_is_no_python_is_no_mutant(tmp_path: Path) -> None:
    names = names_in(tmp_path, "def f(x):\n    match x:\n        case 1 | 2:\n            return 3\n    return 4\n")
    assert not any("ReplaceBinaryOperator" in name for name in names)
    assert "module.py:f:core/NumberReplacer:0" in names


def test_every_mutant_has_a_name_of_its_own(mutants: list[Mutant]) -> None:
    assert [name for name, count in Counter(mutant.name for mutant in mutants).items() if count > 1] == []


def test_the_sample_depends_on_the_seed_and_on_the_name_alone(mutants: list[Mutant]) -> None:
    first, second = mutants[:2]
    assert first.rank(1) == first.rank(1)
    assert len({first.rank(1), first.rank(2), second.rank(1)}) == 3


def test_every_kind_that_is_excluded_exists_and_says_why(mutants: list[Mutant]) -> None:
    for exclusion in load_exclusions():
        assert exclusion.reason
        assert any(exclusion.covers(mutant) for mutant in mutants), exclusion.reason


def test_every_explanation_is_about_a_mutant_as_it_is_today(mutants: list[Mutant]) -> None:
    entries = tomllib.loads((HERE / "survivors.toml").read_text(encoding="utf-8"))["survivor"]
    by_name = {mutant.name: mutant for mutant in mutants}
    exclusions = load_exclusions()
    for entry in entries:
        mutant = by_name.get(entry["mutant"])
        assert mutant is not None, f"no such mutant: {entry['mutant']}"
        assert mutant.change == entry["change"], entry["mutant"]
        assert not any(exclusion.covers(mutant) for exclusion in exclusions), f"not judged at all: {entry['mutant']}"
        assert entry["kind"] in KINDS
        assert len(entry["reason"]) > 20, entry["mutant"]
    assert len({entry["mutant"] for entry in entries}) == len(entries)
