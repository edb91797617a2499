"""From results to the page: incidents, pictures, facts, findings, one section a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import functions as F

from kshim_pipeline.analyses.registry import ANALYSES
from kshim_pipeline.diagnosis.facts import Entry
from kshim_pipeline.diagnosis.typed_rows import values_of
from kshim_pipeline.report import charts, summaries
from kshim_pipeline.report.incidents import incident_object, place_text, worst_first
from kshim_pipeline.report.page import Finding, Page, Section
from kshim_pipeline.report.pictures import picture_of
from kshim_pipeline.report.worst import (
    drawn_groups,
    group_summaries,
    lags,
    newest_commits,
    of_groups,
    worst_incidents,
)
from kshim_pipeline.what_if.assumptions import assumptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kshim.drawing import Picture
    from kshim_pipeline.report.results import Results


FINDINGS_SHOWN: Final = 200


def make_page(results: Results, say: Callable[[str], None]) -> Page:
    """All of it; `say` reports progress."""
    rebalances = results.tables["rebalances"]
    say("reading the time span")
    span = summaries.span_of(rebalances)
    say("collecting incidents")
    rows = worst_incidents(results.incidents)
    incidents = worst_first(map(incident_object, rows))
    total_incidents = results.incidents.count() if rows else 0
    lag = lags(results.tables["commits"], results.tables.get("log_ends")).cache()
    say("drawing groups")
    pictures = _pictures(results, drawn_groups(rows), incidents, lag, span[1])
    groups, groups_omitted = group_summaries(rebalances, lag, incidents)
    sections = [_section(say, *part) for part in _parts(results, span)]
    sections[-1] = sections[-1]._replace(assumptions=list(assumptions().items()))
    say("collecting findings")
    shown, total = _findings(results.findings)
    return Page(
        title="Why consumer groups rebalanced",
        subtitle=f"{_instant(span[0])} to {_instant(span[1])}, read from {', '.join(results.sources)}",
        facts=_facts(rebalances, total_incidents),
        findings=shown,
        sections=sections,
        findings_omitted=total - len(shown),
        incidents=incidents,
        incidents_omitted=total_incidents - len(incidents),
        pictures=pictures,
        groups=groups,
        groups_omitted=groups_omitted,
        questions={name: analysis.question for name, analysis in ANALYSES.items()},
    )


Part = tuple[str, str, Callable[[], pd.DataFrame | None], Callable[[pd.DataFrame], Any], str]


def _parts(results: Results, span: tuple[int, int]) -> list[Part]:
    """Title, question, frame, chart, and what to say when there is nothing: None or no row."""
    rebalances = results.tables["rebalances"]

    def of(name: str, summary: Callable[[Any], pd.DataFrame]) -> Callable[[], pd.DataFrame | None]:
        return lambda: summary(results.analyses[name]) if name in results.analyses else None

    no_rebalance = "No rebalance was found."
    no_phases = "Records do not show how long phases took; events and broker logs do."
    # fmt: off
    return [
        ("Rebalances over time", "When did groups rebalance, and for which reasons?",
         lambda: summaries.over_time(rebalances, span), charts.rebalances_over_time, no_rebalance),
        ("Rebalance storms", "Which groups rebalance most, and when?",
         lambda: summaries.heat(rebalances, span), charts.storm_heat_map, no_rebalance),
        ("Phases by group", "How long do the phases take in the slowest groups?",
         lambda: summaries.by_phase(rebalances, "group_id"), charts.phase_percentiles, no_phases),
        ("Phases by reason", "Which reasons lead to slow rebalances?",
         lambda: summaries.by_phase(rebalances, "reason"), charts.phase_percentiles, no_phases),
        ("Slowest members", "Which clients were most often the last to join, or to give up partitions? The number is the longest wait in ms.",
         of("slowest", summaries.slow_members), charts.slowest_members,
         "No wait for a member exceeded a second, or there are no events that would show it."),
        ("Stickiness", "How many partitions keep their owner, by assignor?",
         of("stickiness", summaries.sticky), charts.stickiness, "No group had two generations with partitions."),
        ("Stuck partitions", "Which partitions make no progress although there are records to read?",
         of("stuck", summaries.stuck_ones), charts.stuck_partitions, "None."),
        ("Lag after rebalances", "How long does lag take to recover?",
         of("recovery", summaries.recoveries), charts.lag_recovery,
         "Log end offsets were not sampled during rebalances; `kshim pipeline land --continuous 60` samples them."),
        ("Timeouts", "Does max.poll.interval.ms fit the observed waits?",
         of("timeouts", summaries.timeouts_seen), charts.timeout_advice, "Only events show how long members wait."),
        ("Other rebalance strategies",
         "What would the same changes have cost under other rebalance strategies? A model: docs/design/what-if.md.",
         lambda: summaries.strategy_sums(results.strategy_costs), charts.strategies,
         "No membership change was found."),
    ]
    # fmt: on


def _section(
    say: Callable[[str], None],
    title: str,
    question: str,
    frame_of: Callable[[], pd.DataFrame | None],
    chart_of: Callable[[pd.DataFrame], Any],
    nothing: str,
) -> Section:
    say(f"drawing: {title}")
    frame = frame_of()
    if frame is None or frame.empty:
        return Section(title, question, None, nothing)
    return Section(title, question, charts.spec(chart_of(frame)))


def _pictures(
    results: Results, names: Sequence[str], incidents: Sequence[Mapping[str, Any]], lag: DataFrame, end_ms: int
) -> dict[str, Picture]:
    known = of_groups(results.known, names, "group")
    ownership = of_groups(results.tables["ownership"], names)
    behind = of_groups(lag, names)
    commits = of_groups(newest_commits(results.tables["commits"].where(F.col("group_id").isin(*names))), names)
    return {
        name: picture_of(
            name,
            values_of(Entry, known[name]),
            [each for each in incidents if name in each["groups"]],
            ownership=ownership[name],
            lags=behind[name],
            commits=commits[name],
            now_ms=end_ms,
        )
        for name in names
        if known[name]
    }


def _facts(rebalances: DataFrame, incident_count: int) -> list[tuple[str, str]]:
    row = rebalances.agg(
        F.countDistinct("group_id").alias("groups"),
        F.count("*").alias("rebalances"),
        F.sum(F.when(F.col("basis") == "observed", 1).otherwise(0)).alias("observed"),
        F.sum("total_ms").alias("stopped_ms"),
        F.sum(F.when(F.col("outcome") != "completed", 1).otherwise(0)).alias("unfinished"),
    ).collect()[0]
    hours = (row.stopped_ms or 0) / 3_600_000
    return [
        ("groups", f"{row.groups:,}"),
        ("rebalances", f"{row.rebalances:,}"),
        ("observed", f"{(row.observed or 0) / max(row.rebalances, 1):.0%}"),
        ("spent rebalancing", f"{hours:,.1f} h" if hours >= 1 else f"{hours * 3600:,.1f} s"),
        ("not completed", f"{row.unfinished or 0:,}"),
        ("incidents", f"{incident_count:,}"),
    ]


def _findings(findings: DataFrame) -> tuple[list[Finding], int]:
    """Of the analyses, the most severe first: what the diagnosis found stands in the cards."""
    measured = findings.where("analysis != 'diagnosis'")
    order = F.when(F.col("severity") == "critical", 0).when(F.col("severity") == "warning", 1).otherwise(2)
    shown = [
        Finding(
            row.analysis,
            row.severity,
            row.group_id,
            row.from_ts_ms,
            row.sentence,
            row.advice or "",
            row.basis,
            "; ".join(place_text(place) for place in (row.evidence or ())[:2] if place is not None),
        )
        for row in measured.orderBy(order, F.desc_nulls_last("value")).limit(FINDINGS_SHOWN).collect()
    ]
    return shown, measured.count()


def _instant(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
