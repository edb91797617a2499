"""Each chart is a valid Vega-Lite document that draws something for its frame, and stands on names of any kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
import vl_convert

from kshim_pipeline.report import charts
from kshim_pipeline.report.page import Page, Section
from kshim_pipeline.report.picture import picture

AT = pd.date_range("2026-11-01", periods=3, freq="h", tz="UTC")
SPANS = {"at": AT, "until": AT + timedelta(hours=1)}
FRAMES: list[tuple[Callable[[pd.DataFrame], Any], pd.DataFrame]] = [
    (
        charts.rebalances_over_time,
        pd.DataFrame({**SPANS, "reason": ["member_left", "a", "b"], "rebalances": [1, 2, 3]}),
    ),
    (charts.storm_heat_map, pd.DataFrame({**SPANS, "group_id": ["g.1", "g[2]", "g'3"], "rebalances": [1, 2, 3]})),
    (
        charts.phase_percentiles,
        pd.DataFrame(
            {"name": ["g"] * 2, "phase": ["JOIN", "SYNC"], "p50_ms": [0, 1], "p95_ms": [9, 9], "p99_ms": [99, 9]}
        ),
    ),
    (charts.slowest_members, pd.DataFrame({"who": ["app @ h1"], "times_last": [4], "longest_wait_ms": [812.0]})),
    (charts.stickiness, pd.DataFrame({"protocol": ["range"], "kept": [0.5], "rebalances": [9]})),
    (charts.stuck_partitions, pd.DataFrame({"partition": ["g t-0"], "kind": ["stuck"], "minutes": [3.5]})),
    (
        charts.lag_recovery,
        pd.DataFrame({"group_id": ["g"] * 3, "at": AT, "recovery_s": [1.5, 2, 90], "peak_lag": [10, 20, 900]}),
    ),
    (
        charts.timeout_advice,
        pd.DataFrame({"name": ["g"], "p50_ms": [5], "p99_ms": [90], "configured_ms": [45_000], "advised_ms": [10_000]}),
    ),
    (
        charts.strategies,
        pd.DataFrame(
            {
                "strategy": ["server-side"],
                "notifications": [4],
                "generations": [2],
                "moved_partitions": [3],
                "stopped_partition_s": [1.5],
            }
        ),
    ),
]


@pytest.mark.parametrize(("chart", "frame"), FRAMES, ids=[chart.__name__ for chart, _ in FRAMES])
def test_a_chart_draws_its_frame(chart: Callable[[pd.DataFrame], Any], frame: pd.DataFrame) -> None:
    svg = vl_convert.vegalite_to_svg(charts.spec(chart(frame)))
    assert svg.count("aria-roledescription=") > 1  # marks, beside axes and titles


def test_rebalances_of_one_span_are_stacked_by_reason() -> None:
    frame = pd.DataFrame(
        {"at": AT[[0, 1, 0]], "until": AT[[1, 2, 1]], "reason": ["b", "a", "a"], "rebalances": [2, 3, 1]}
    )
    (rows,) = charts.spec(charts.rebalances_over_time(frame))["datasets"].values()
    assert [(row["reason"], row["bottom"], row["top"]) for row in rows] == [("a", 0, 1), ("b", 1, 3), ("a", 0, 3)]


def test_a_picture_of_a_page_shows_the_rows_of_its_charts() -> None:
    sections = [Section(chart.__name__, "?", charts.spec(chart(frame))) for chart, frame in FRAMES[:3]]
    page = Page("Rebalances", "", [("groups", "3")], [], [*sections, Section("Lag", "?", None, "nothing")])
    png = picture(page)
    assert png.startswith(b"\x89PNG")
    empty = [Section(chart.__name__, "?", charts.spec(chart(frame[:0]))) for chart, frame in FRAMES[:3]]
    assert len(png) > 1.2 * len(picture(page._replace(sections=empty)))
