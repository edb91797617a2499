"""The tables are declared once, and the page says what the code says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from kshim_pipeline.schemas import EVENTS, TABLES, Table, tables_page

DOCS = Path(__file__).parents[2] / "docs"


def fields(schema: StructType, prefix: str = "") -> Iterator[tuple[str, StructField]]:
    for field in schema.fields:
        yield prefix + field.name, field
        kind: DataType = field.dataType
        if isinstance(kind, ArrayType):
            kind = kind.elementType
        if isinstance(kind, StructType):
            yield from fields(kind, f"{prefix}{field.name}.")


def test_the_page_of_the_tables_is_printed_from_the_schemas() -> None:
    assert (DOCS / "pipeline-tables.md").read_text() == tables_page()


@pytest.mark.parametrize("table", [t for t in TABLES.values() if t.name != "records"], ids=lambda t: t.name)
def test_every_column_says_what_it_means_and_columns_in_ms_say_so(table: Table) -> None:
    for field in table.schema.fields:
        assert field.metadata["comment"]
        if field.name.endswith("_ms"):
            assert field.metadata["unit"] in ("ms", "ms since 1970"), field.name


def test_the_events_are_those_of_their_design() -> None:
    text = (DOCS / "design" / "events.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([a-z_ ]+) \|[^|]*\| (?:no|yes) \|", text, re.MULTILINE)
    kinds = {"int": "int", "long": "bigint", "string": "string", "bool": "boolean"}
    documented = {name: kinds.get(kind, "parts") for name, kind in rows}
    ours: dict[str, str] = {}
    part_names = {"trigger": "member", "members": "counts", "waits": "wait", "last_to_join": "wait",
                  "last_to_sync": "wait", "kicked": "kicked", "ended_by": "end", "activity": "activity", "subscription": "subscription", "topic_changes": "topic_change",
                  "reconciliation": "course", "reconciliation.members": "progress", "reconciliation.unowned": "gap",
                  "reconciliation.step": "step", "reconciliation.last_to_revoke": "wait",
                  "reconciliation.last_to_assign": "wait", "records": "records", "records.ranges": "range"}  # fmt: skip
    for name, field in fields(StructType([f for f in EVENTS.fields if f.name != "evidence"])):
        whole, _, part = name.rpartition(".")
        simple = field.dataType.simpleString()
        ours[f"{part_names[whole]}.{part}" if whole else part] = simple if simple in kinds.values() else "parts"
    assert ours == documented
