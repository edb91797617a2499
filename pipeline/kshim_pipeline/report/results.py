"""All results: model tables, rows of the analyses, incidents, findings, costs of other strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException

from kshim_pipeline.analyses.registry import ANALYSES, all_findings
from kshim_pipeline.analyses.registry import run as run_analysis
from kshim_pipeline.diagnosis.findings import findings_of
from kshim_pipeline.diagnosis.of_fleet import incidents_of_fleet, known_of_fleet
from kshim_pipeline.diagnosis.settled import settled
from kshim_pipeline.errors import EXIT_UNAVAILABLE, PipelineError
from kshim_pipeline.folder import folder_at
from kshim_pipeline.materialize import Materialize, OnDemand, in_folder
from kshim_pipeline.model.build import build
from kshim_pipeline.report.gather import Gathered
from kshim_pipeline.report.published import Publication, Publications, published_in
from kshim_pipeline.report.worst import entries_of_drawn
from kshim_pipeline.setup.session import fit
from kshim_pipeline.what_if.compare import strategy_costs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MODEL: Final = ("generations", "memberships", "ownership", "commits", "events", "rebalances", "migrations")
_IF_READ: Final = ("log_ends", "share_state")
"""Tables that are there only if their source was."""
_TABLES: Final = "tables/"
_ANALYSES: Final = "analyses/"
_WORK: Final = "work"


class Results(NamedTuple):
    """`tables`: the model by name. `analyses`: rows by the name of the analysis; one that lacked its input is not there.

    `others`: incidents, findings, strategy_costs and known. Each is computed when it is first used. `left_out`: what could
    not be read, in sentences. `days`: of which each was analysed by itself; empty: all was analysed together.
    """

    tables: Mapping[str, DataFrame]
    analyses: Mapping[str, DataFrame]
    others: Mapping[str, DataFrame]
    sources: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    days: tuple[str, ...] = ()

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
        """Rows of `kshim_pipeline.diagnosis.facts.Entry`: all that is known of the groups that a page draws."""
        return self.others["known"]

    @property
    def strategy_costs(self) -> DataFrame:
        """The table COSTS of `kshim_pipeline.what_if.compare`."""
        return self.others["strategy_costs"]


def compute(spark: SparkSession, gathered: Gathered, materialize: Materialize) -> Results:
    """All results, each computed and stored with `materialize` when it is first used."""

    stored: dict[str, DataFrame] = {}

    def on_the_way(name: str, frame: DataFrame) -> DataFrame:
        if name in _MODEL:
            stored[name] = materialize(f"{_TABLES}{name}", frame)
            return stored[name]
        return materialize(f"{_WORK}/{name.replace(' ', '_')}", frame)

    built = build(spark, gathered.decoded, gathered.events, gathered.log_lines, materialize=on_the_way)
    window = gathered.window
    built["rebalances"] = window.touched(built["rebalances"], "ts_ms")
    built |= {name: frame for name in _IF_READ if (frame := getattr(gathered, name)) is not None}
    makers = {name: partial(built.__getitem__, name) for name in built}
    tables = OnDemand(makers, materialize, under=_TABLES, made=stored)
    possible = [name for name, analysis in ANALYSES.items() if all(needed in tables for needed in analysis.needs)]
    analyses = OnDemand({name: partial(_analysis, name, tables) for name in possible}, materialize, under=_ANALYSES)

    @cache
    def known() -> DataFrame:
        return known_of_fleet(gathered.decoded, gathered.events, gathered.log_lines, materialize=on_the_way)

    def found() -> DataFrame:
        incidents = incidents_of_fleet(known(), since_ms=window.read_since_ms, materialize=on_the_way)
        return window.touched(incidents, "from_ms", "to_ms")

    def of_analyses() -> DataFrame:
        return window.touched(settled(all_findings(analyses), others["incidents"]), "from_ts_ms", "to_ts_ms")

    others = OnDemand(
        {
            "incidents": found,
            "findings": lambda: findings_of(others["incidents"]).unionByName(of_analyses()),
            "known": lambda: entries_of_drawn(known(), others["incidents"]),
            "strategy_costs": lambda: strategy_costs(
                tables["memberships"], tables["generations"], since_ms=window.since_ms, until_ms=window.until_ms
            ),
        },
        materialize,
    )
    return Results(tables, analyses, others, gathered.sources, gathered.left_out)


def _analysis(name: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    rows = run_analysis(ANALYSES[name], tables)
    assert rows is not None, name
    return rows


def write_results(spark: SparkSession, gathered: Gathered, folder: str, say: Callable[[str], None]) -> Publication:
    """All of it as Parquet, one directory a table, published in `folder` when it is complete. `say` reports each.

    Raises PipelineError: another run published meanwhile.
    """
    place = folder_at(spark, folder)
    publications = Publications(place)
    started = publications.start()
    results = compute(spark, gathered, in_folder(spark, f"{folder}/{started.run}", say))
    written = []
    for under, frames in ((_TABLES, results.tables), (_ANALYSES, results.analyses), ("", results.others)):
        for name in frames:
            frames[name]
            written.append(f"{under}{name}")
    place.delete(f"{started.run}/{_WORK}")
    publication = started._replace(
        tables=tuple(written), sources=results.sources, left_out=results.left_out, made_of=gathered.made_of
    )
    publications.publish(publication)
    return publication


def read_results(spark: SparkSession, folder: str) -> Results:
    """The newest that `write_results` published, or those of all days together. Raises PipelineError: not all of it is there."""
    try:
        published = published_in(folder_at(spark, folder))
        tables, analyses, others = (_read(spark, folder, published, under) for under in (_TABLES, _ANALYSES, ""))
        fit(spark, sum(tables[name].count() for name in _MODEL))
    except (AnalysisException, KeyError) as error:
        raise PipelineError(
            f"Not all results in {folder} are there; create them with `kshim pipeline analyse --out {folder}`",
            EXIT_UNAVAILABLE,
        ) from error
    sources, left_out = (
        tuple(dict.fromkeys(text for each in published for text in texts(each)))
        for texts in (attrgetter("sources"), attrgetter("left_out"))
    )
    return Results(tables, analyses, others, sources, left_out, tuple(day for each in published if (day := each.day)))


def _read(spark: SparkSession, folder: str, published: Sequence[Publication], under: str) -> dict[str, DataFrame]:
    """The tables below `under` by their names; one that some publications lack has the rows of the others."""
    found: dict[str, list[str]] = {}
    for each in published:
        for path in each.tables:
            if path.startswith(under) and "/" not in (name := path[len(under) :]):
                found.setdefault(name, []).append(f"{folder}/{each.run}/{path}")
    return {name: spark.read.parquet(*paths) for name, paths in found.items()}
