"""Everything that is known: model tables, rows of the analyses, incidents, findings, what other schemes would cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException

from kshim_pipeline.analyses.registry import ANALYSES, all_findings
from kshim_pipeline.analyses.registry import run as run_analysis
from kshim_pipeline.diagnosis.incidents import findings_of, incidents
from kshim_pipeline.model.build import build
from kshim_pipeline.problems import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.report.gather import Gathered
from kshim_pipeline.schemes.compare import compare
from kshim_pipeline.schemes.membership_changes import membership_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Results", "compute", "read_results", "write_results"]

_MODEL: Final = ("generations", "memberships", "ownership", "commits", "events", "rebalances")
_CACHED: Final = ("generations", "memberships", "rebalances")


class Results(NamedTuple):
    """`tables`: the model by name. `analyses`: rows by the name of the analysis; one that lacked its input is not there."""

    tables: dict[str, DataFrame]
    analyses: dict[str, DataFrame]
    incidents: DataFrame
    findings: DataFrame
    scheme_costs: DataFrame
    sources: tuple[str, ...]


def compute(spark: SparkSession, gathered: Gathered) -> Results:
    """All of it, lazily; what is read often is cached."""
    tables = build(spark, gathered.decoded, gathered.events, gathered.log_lines)
    for name in _CACHED:
        tables[name] = tables[name].cache()
    rows = {name: run_analysis(analysis, tables) for name, analysis in ANALYSES.items()}
    analyses = {name: frame for name, frame in rows.items() if frame is not None}
    found = incidents(gathered.decoded, gathered.events, gathered.log_lines).cache()
    findings = findings_of(found).unionByName(all_findings(analyses)).cache()
    costs = compare(membership_changes(tables["memberships"], tables["generations"]))
    return Results(tables, analyses, found, findings, costs, gathered.sources)


def write_results(results: Results, folder: str, say: Callable[[str], None]) -> None:
    """Parquet below `folder`, one folder a table; what was there is replaced. `say` hears of each."""
    frames = {f"tables/{name}": results.tables[name] for name in _MODEL}
    frames |= {f"analyses/{name}": frame for name, frame in results.analyses.items()}
    frames |= {"incidents": results.incidents, "findings": results.findings, "scheme_costs": results.scheme_costs}
    for name, frame in frames.items():
        say(f"writing {name}")
        frame.write.mode("overwrite").parquet(f"{folder}/{name}")
    Path(folder, "sources.txt").write_text("".join(f"{source}\n" for source in results.sources))


def read_results(spark: SparkSession, folder: str) -> Results:
    """What `write_results` wrote. Raises PipelineError: nothing, or not all of it, is there."""
    try:
        tables = {name: spark.read.parquet(f"{folder}/tables/{name}") for name in _MODEL}
        present = sorted(path.name for path in Path(folder, "analyses").iterdir() if path.name in ANALYSES)
        analyses = {name: spark.read.parquet(f"{folder}/analyses/{name}") for name in present}
        found, findings, costs = (
            spark.read.parquet(f"{folder}/{name}") for name in ("incidents", "findings", "scheme_costs")
        )
        sources = tuple(Path(folder, "sources.txt").read_text().splitlines())
    except (AnalysisException, OSError) as error:
        raise PipelineError(
            f"{folder} holds no results; `kshim pipeline analyse --out {folder}` makes them", EXIT_UNAVAILABLE
        ) from error
    return Results(tables, analyses, found, findings, costs, sources)
