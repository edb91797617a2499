"""All results: model tables, rows of the analyses, incidents, findings, costs of other strategies."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException

from kshim_pipeline.analyses.registry import ANALYSES, all_findings
from kshim_pipeline.analyses.registry import run as run_analysis
from kshim_pipeline.diagnosis.findings import findings_of
from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet
from kshim_pipeline.diagnosis.settled import settled
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.materialize import Materialize, OnDemand, in_folder
from kshim_pipeline.model.build import build
from kshim_pipeline.report.gather import Gathered
from kshim_pipeline.report.stored import LEFT_OUT, SOURCES, left_out
from kshim_pipeline.report.worst import known_of_drawn
from kshim_pipeline.setup.session import fit
from kshim_pipeline.what_if.compare import compare
from kshim_pipeline.what_if.membership_changes import membership_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MODEL: Final = ("generations", "memberships", "ownership", "commits", "events", "rebalances", "migrations")
_IF_READ: Final = ("log_ends", "share_state")
"""Tables that are there only if their source was."""
_WORK: Final = "work"


class Results(NamedTuple):
    """`tables`: the model by name. `analyses`: rows by the name of the analysis; one that lacked its input is not there.

    `others`: incidents, findings, strategy_costs and known. Each is computed when it is first used. `left_out`: what could
    not be read, in sentences.
    """

    tables: Mapping[str, DataFrame]
    analyses: Mapping[str, DataFrame]
    others: Mapping[str, DataFrame]
    sources: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def incidents(self) -> DataFrame:
        """The table INCIDENTS."""
        return self.others["incidents"]

    @property
    def findings(self) -> DataFrame:
        """The table findings: of the diagnosis and of all analyses."""
        return self.others["findings"]

    @property
    def known(self) -> DataFrame:
        """ENTRIES of `kshim_pipeline.diagnosis.neighbours`: all that is known of the groups that a page draws."""
        return self.others["known"]

    @property
    def strategy_costs(self) -> DataFrame:
        """The table COSTS of `kshim_pipeline.what_if.compare`."""
        return self.others["strategy_costs"]


def compute(spark: SparkSession, gathered: Gathered, materialize: Materialize) -> Results:
    """All results, each computed and stored with `materialize` when it is first used."""

    def on_the_way(name: str, frame: DataFrame) -> DataFrame:
        return materialize(f"{_WORK}/{name.replace(' ', '_')}", frame)

    built = build(spark, gathered.decoded, gathered.events, gathered.log_lines, materialize=on_the_way)
    built |= {name: frame for name in _IF_READ if (frame := getattr(gathered, name)) is not None}
    tables = OnDemand({name: partial(built.__getitem__, name) for name in built}, materialize, under="tables/")
    possible = [name for name, analysis in ANALYSES.items() if all(needed in tables for needed in analysis.needs)]
    analyses = OnDemand({name: partial(_analysis, name, tables) for name in possible}, materialize, under="analyses/")

    def found() -> DataFrame:
        return incidents_of_fleet(gathered.decoded, gathered.events, gathered.log_lines, materialize=on_the_way)

    others = OnDemand(
        {
            "incidents": found,
            "findings": lambda: findings_of(others["incidents"]).unionByName(
                settled(all_findings(analyses), others["incidents"])
            ),
            "known": lambda: known_of_drawn(gathered, others["incidents"]),
            "strategy_costs": lambda: compare(membership_changes(tables["memberships"], tables["generations"])),
        },
        materialize,
    )
    return Results(tables, analyses, others, gathered.sources, gathered.left_out)


def _analysis(name: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    rows = run_analysis(ANALYSES[name], tables)
    assert rows is not None, name
    return rows


def write_results(spark: SparkSession, gathered: Gathered, folder: str, say: Callable[[str], None]) -> Results:
    """All of it as Parquet below `folder`, one folder a table; existing ones are replaced. `say` reports each."""
    for name in _IF_READ:
        shutil.rmtree(Path(folder, "tables", name), ignore_errors=True)  # of an earlier run
    results = compute(spark, gathered, in_folder(spark, folder, say))
    for frames in (results.tables, results.analyses, results.others):
        for name in frames:
            frames[name]
    shutil.rmtree(Path(folder, _WORK), ignore_errors=True)
    Path(folder, LEFT_OUT).write_text("".join(f"{sentence}\n" for sentence in results.left_out))
    Path(folder, SOURCES).write_text("".join(f"{source}\n" for source in results.sources))
    return results


def read_results(spark: SparkSession, folder: str) -> Results:
    """What `write_results` wrote. Raises PipelineError: nothing, or not all of it, is there."""

    def read(*names: str) -> dict[str, DataFrame]:
        return {Path(name).name: spark.read.parquet(f"{folder}/{name}") for name in names}

    try:
        if_read = [name for name in _IF_READ if Path(folder, "tables", name).is_dir()]
        tables = read(*(f"tables/{name}" for name in (*_MODEL, *if_read)))
        present = sorted(path.name for path in Path(folder, "analyses").iterdir() if path.name in ANALYSES)
        analyses = read(*(f"analyses/{name}" for name in present))
        others = read("incidents", "findings", "known", "strategy_costs")
        sources = tuple(Path(folder, SOURCES).read_text().splitlines())
    except (AnalysisException, OSError) as error:
        raise PipelineError(
            f"{folder} contains no results; create them with `kshim pipeline analyse --out {folder}`", EXIT_UNAVAILABLE
        ) from error
    fit(spark, sum(tables[name].count() for name in _MODEL))
    return Results(tables, analyses, others, sources, tuple(left_out(folder)))
