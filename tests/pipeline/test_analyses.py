"""The registry knows all thirteen, and their rows become findings that say what, how bad, and where it is written."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from kshim_pipeline.analyses.correlation import client_family
from kshim_pipeline.analyses.findings import packed, unpacked
from kshim_pipeline.analyses.registry import ANALYSES, Analysis, all_findings, run
from kshim_pipeline.materialize import Materialize
from kshim_pipeline.schemas import (
    BASES,
    COMMITS,
    EVIDENCE,
    FINDINGS,
    GENERATIONS,
    LOG_ENDS,
    MEMBERSHIPS,
    MIGRATIONS,
    OWNERSHIP,
    REBALANCES,
    TABLES,
)
from tests.pipeline.model_rows import rows_of, table
from tests.pipeline.test_analyses_of_epochs import UPGRADED
from tests.pipeline.test_analyses_of_members import LIVES, WAITS, commit, sample
from tests.pipeline.test_analyses_of_rebalances import ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_there_are_thirteen_analyses_numbered_as_their_questions() -> None:
    assert [analysis.number for analysis in ANALYSES.values()] == list(range(1, 14))


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=lambda analysis: analysis.name)
def test_an_analysis_takes_the_tables_it_says_it_needs(analysis: Analysis) -> None:
    parameters = inspect.signature(analysis.function).parameters.values()
    tables = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert tuple(p.name for p in tables if p.default is p.empty) == analysis.needs
    assert tuple(p.name for p in tables if p.default is None) == analysis.may_use
    assert {*analysis.needs, *analysis.may_use} <= TABLES.keys()
    assert set(analysis.bases) <= set(BASES)
    assert analysis.function.__doc__
    assert analysis.question.endswith("?")


def test_evidence_survives_being_packed_into_a_number(spark: SparkSession) -> None:
    places = [("__consumer_offsets", 49, (1 << 44) - 1), ("__kshim_events", 0, 0), ("log", None, 7)]
    rows = spark.createDataFrame([(place,) for place in places], f"evidence {EVIDENCE.simpleString()}")
    found = rows.select(packed().alias("number"), unpacked(packed()).alias("e")).select("number", "e.*").collect()
    assert [tuple(row)[1:] for row in found] == places
    assert [row.offset for row in sorted(found)] == [(1 << 44) - 1, 0, 7]


def test_client_ids_of_one_family_differ_in_the_numbers_at_their_end(spark: SparkSession) -> None:
    ids = ["billing-7", "billing-12", "billing", "billing-7d9f86c4-2", "v2-api", "kafka-python-3.0.12-4f2a9b7c"]
    rows = spark.createDataFrame([(name,) for name in ids], "name string").select("name", client_family("name"))
    families = dict(tuple(row) for row in rows.collect())
    assert families == {
        "billing-7": "billing", "billing-12": "billing", "billing": "billing", "billing-7d9f86c4-2": "billing",
        "v2-api": "v2-api", "kafka-python-3.0.12-4f2a9b7c": "kafka-python",
    }  # fmt: skip


def test_no_analysis_leaves_sql_or_multiplies_tables(spark: SparkSession) -> None:
    """Planned, not run. Nested loops are only for the one row that says where history ends."""
    empty = {name: table(spark, TABLES[name].schema, []) for name in
             ("rebalances", "memberships", "ownership", "generations", "commits", "log_ends", "migrations")}  # fmt: skip
    with_nested_loops = set()
    for name, analysis in ANALYSES.items():
        rows = run(analysis, empty)
        assert rows is not None
        plan = rows._jdf.queryExecution().sparkPlan().toString()
        assert "EvalPython" not in plan, name
        assert "CartesianProduct" not in plan, name
        if "NestedLoopJoin" in plan:
            with_nested_loops.add(name)
    assert with_nested_loops == {"stuck", "correlation"}


def test_rows_of_analyses_become_findings(spark: SparkSession, materialize: Materialize) -> None:
    tables = {
        "rebalances": table(spark, REBALANCES, ROWS),
        "memberships": table(spark, MEMBERSHIPS, LIVES + WAITS),
        "commits": table(spark, COMMITS, [commit("a", 0, 0, 10), commit("a", 0, 700_000, 10), commit("a", 0, 800_000, 4, generation_id=2)]),
        "generations": table(spark, GENERATIONS, [{"group_id": "a", "incarnation": 0, "generation_id": 2, "ts_ms": 750_000, "state": "Empty"}]),
        "ownership": table(spark, OWNERSHIP, []),
        "migrations": table(spark, MIGRATIONS, [UPGRADED]),
    }  # fmt: skip
    assert run(ANALYSES["recovery"], tables) is None
    tables["log_ends"] = table(spark, LOG_ENDS, [sample(0, 800_000, 50), sample(0, 0, 10), sample(0, 1_200_000, 90)])
    results = {name: answer for name, analysis in ANALYSES.items() if (answer := run(analysis, tables)) is not None}
    assert results.keys() == ANALYSES.keys()
    found = all_findings({name: materialize(name, answer) for name, answer in results.items()})
    assert found.schema.names == FINDINGS.names
    assert [f.dataType for f in found.schema.fields] == [f.dataType for f in FINDINGS.fields]
    columns = ("analysis", "severity", "group_id", "cause", "sentence", "basis", "evidence")
    rows = rows_of(found.where("analysis != 'phases'"), *columns)
    assert [row[:3] for row in rows] == [
        ("correlation", "warning", None),
        ("correlation", "warning", None),
        ("crash_loops", "warning", "loop"),
        ("crash_loops", "warning", "static"),
        ("crash_loops", "warning", "zombie"),
        ("migrations", "info", "m"),
        ("recovery", "critical", "a"),
        ("recovery", "critical", "a"),
        ("silence", "critical", "a"),
        ("stopped", "warning", "b"),
        ("storms", "warning", "a"),
        ("stuck", "warning", "a"),
        ("timeouts", "warning", "late"),
        ("timeouts", "warning", "loop"),
        ("why", "info", "a"),
    ]
    of = {(analysis, group): tuple(rest) for analysis, _, group, *rest in rows}
    assert of["storms", "a"] == (
        "member_left",
        "Group a rebalanced 5 times from 1970-01-01 00:00:00 to 1970-01-01 00:06:40, for 8.0 s in total; 80 % were "
        "triggered by client svc-1 on h1, mostly member_left.",
        "observed",
        [("__kshim_events", 0, 1), ("__kshim_events", 0, 5)],
    )
    assert of["crash_loops", "static"][0] == "crash_loop"
    assert of["crash_loops", "zombie"][:1] == ("zombie",)
    assert (
        of["why", "a"][1] == "Group a rebalanced 6 times; 33 % were triggered by session_timeout of client svc-1 on h1."
    )
    assert of["stuck", "a"][0] == "unattended_partition"
