"""What is known to differ from Kafka is written down once, completely, and each entry names tests that exist."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kshim.tools.kafka_apis import KAFKA_APIS
from kshim_protocol.apis import API_TABLE
from tests.docs.blocks import ROOT
from tests.docs.differences_page import DATA, PAGE, page, scenarios_that_differ

DIFFERENCES = DATA["difference"]
TESTS = [test for entry in DIFFERENCES for test in entry["tests"]]
FILES = sorted({test for test in TESTS if "::" in test})


def named(kind: str) -> set[str]:
    return {test.removeprefix(kind) for test in TESTS if test.startswith(kind)}


def test_the_page_is_generated() -> None:
    """`python -m tests.docs.differences_page --write` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("entry", DIFFERENCES, ids=lambda entry: entry["what"])
def test_an_entry_says_everything(entry: dict[str, Any]) -> None:
    assert list(entry) == ["area", "what", "kafka", "kshim", "why", "tests"]
    assert entry["tests"]
    for key in ("what", "kafka", "kshim", "why"):
        assert entry[key].endswith(".")


def test_every_scenario_that_differs_from_kafka_is_named() -> None:
    assert named("scenario:") == scenarios_that_differ()


def test_every_difference_that_the_differential_machine_allows_is_named() -> None:
    rules = tomllib.loads((ROOT / "integration" / "differential" / "allowed.toml").read_text(encoding="utf-8"))
    assert named("differential:") == {rule["id"] for rule in rules["allowed"]}


@pytest.mark.parametrize("test", FILES)
def test_a_test_that_is_named_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in set(names_in(ROOT / file))


def names_in(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name, body=body):
                yield from (f"{name}::{method.name}" for method in body if isinstance(method, ast.FunctionDef))
            case _:
                pass


def test_the_apis_that_are_not_served_are_named() -> None:
    names = [name for entry in DATA["unserved"] for name in entry["apis"]]
    assert sorted(names) == sorted(name for key, (name, _) in KAFKA_APIS.items() if key not in API_TABLE)


def test_what_is_served_has_all_versions_of_kafka() -> None:
    served = {api.key: (api.min_version, api.max_version) for api in API_TABLE.values()}
    assert served == {key: versions for key, (_, versions) in KAFKA_APIS.items() if key in API_TABLE}
