"""The panels of the report: small frames in, Vega-Lite charts out. Nothing here knows Spark.

Each function says which columns its frame has. Frames are small by then: `report.summaries` has cut them to size.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import pandas as pd

from kshim_pipeline.report.style import HEAT, INK, PHASE_COLORS, QUIET, WIDTH, theme

_ROW = 22
"""Height of one line of a chart of names, in pixels."""

_CLOCK = (
    "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S'"
    " : utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : '%b %d')"
)


def _instants() -> Any:
    """The axis for `at`. Charts are read far from where they were drawn, so time is UTC everywhere."""
    return alt.X(
        "at:T",
        title="UTC",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(labelExpr=_CLOCK, labelOverlap=True, tickCount=10),
    )


def spec(chart: Any) -> dict[str, Any]:
    """The chart as a Vega-Lite document with the theme in it."""
    document: dict[str, Any] = chart.to_dict()
    document["config"] = theme()
    return document


def rebalances_over_time(frame: pd.DataFrame) -> Any:
    """`at`, `until` (UTC), `reason`, `rebalances`: how many began in each span of time, by reason."""
    stacked = frame.sort_values(["at", "reason"])  # Vega-Lite does not stack what has its own ends in time
    top = stacked.groupby("at").rebalances.cumsum()
    return (
        alt.Chart(stacked.assign(top=top, bottom=top - stacked.rebalances))
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            x=_instants(),
            x2="until:T",
            y=alt.Y("bottom:Q", title="rebalances", axis=alt.Axis(tickMinStep=1, format=",d")),
            y2="top:Q",
            color=alt.Color("reason:N", title="reason"),
            tooltip=["at:T", "reason:N", "rebalances:Q"],
        )
        .properties(width=WIDTH, height=200)
    )


def storm_heat_map(frame: pd.DataFrame) -> Any:
    """`group_id`, `at`, `until` (UTC), `rebalances`: the groups with the most rebalances, one line each."""
    groups = frame.groupby("group_id").rebalances.sum().sort_values(ascending=False).index.tolist()
    return (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=_instants(),
            x2="until:T",
            y=alt.Y("group_id:N", title=None, sort=groups, axis=alt.Axis(grid=True, tickBand="extent")),
            color=alt.Color(
                "rebalances:Q",
                title="rebalances",
                scale=alt.Scale(scheme=HEAT, domainMin=0),
                legend=alt.Legend(tickMinStep=1, format="d"),
            ),
            tooltip=["group_id:N", "at:T", "rebalances:Q"],
        )
        .properties(width=WIDTH, height=_height(len(groups)))
    )


def phase_percentiles(frame: pd.DataFrame) -> Any:
    """`name` (a group or a reason), `phase` (JOIN or SYNC), `p50_ms`, `p95_ms`, `p99_ms`.

    A bar from p50 to p99 with a tick at p95; the scale is logarithmic, since phases take from 1 ms to minutes.
    """
    colors = alt.Color(
        "phase:N", title=None, scale=alt.Scale(domain=list(PHASE_COLORS), range=list(PHASE_COLORS.values()))
    )
    shown = frame.assign(**{name: frame[name].clip(lower=1) for name in ("p50_ms", "p95_ms", "p99_ms")})
    base = alt.Chart(shown).encode(
        y=alt.Y("name:N", title=None, sort=alt.EncodingSortField("p99_ms", op="max", order="descending")),
        yOffset=alt.YOffset("phase:N"),
        tooltip=["name:N", "phase:N", "p50_ms:Q", "p95_ms:Q", "p99_ms:Q"],
    )
    scale = alt.Scale(type="log")
    bars = base.mark_bar(height=7, opacity=0.75).encode(
        x=alt.X("p50_ms:Q", title="ms: p50 to p99, a tick at p95", scale=scale), x2="p99_ms:Q", color=colors
    )
    ticks = base.mark_tick(thickness=2, size=12, color=INK).encode(x=alt.X("p95_ms:Q", scale=scale))
    return (bars + ticks).properties(width=WIDTH, height=_height(frame.name.nunique()) + 10)


def slowest_members(frame: pd.DataFrame) -> Any:
    """`who` (client id and host), `times_last`, `longest_wait_ms`: who kept others waiting, most often first."""
    bars = _bars(
        frame,
        alt.X("times_last:Q", title="times last to join"),
        "who",
        ["who:N", "times_last:Q", "longest_wait_ms:Q"],
        color=alt.Color("longest_wait_ms:Q", title="longest wait, ms", scale=alt.Scale(scheme="blues")),
    )
    text = alt.Chart(frame).mark_text(align="left", dx=4, color=QUIET)
    labels = text.encode(
        y=alt.Y("who:N", title=None, sort="-x"), x="times_last:Q", text=alt.Text("longest_wait_ms:Q", format=",.0f")
    )
    return (bars + labels).properties(width=WIDTH, height=_height(len(frame)))


def stickiness(frame: pd.DataFrame) -> Any:
    """`protocol` (assignor), `kept` (share of partitions that kept their owner, 0 to 1), `rebalances`."""
    axis, scale = alt.Axis(format="%"), alt.Scale(domain=[0, 1])
    return _bars(
        frame,
        alt.X("kept:Q", title="partitions that kept their owner", axis=axis, scale=scale),
        "protocol",
        ["protocol:N", alt.Tooltip("kept:Q", format=".1%"), "rebalances:Q"],
    )


def stuck_partitions(frame: pd.DataFrame) -> Any:
    """`partition` (group, topic and partition), `kind`, `minutes` without a commit."""
    return _bars(
        frame,
        alt.X("minutes:Q", title="minutes without a commit"),
        "partition",
        ["partition:N", "kind:N", "minutes:Q"],
        color=alt.Color("kind:N", title=None),
    )


def lag_recovery(frame: pd.DataFrame) -> Any:
    """`group_id`, `at` (UTC), `recovery_s`, `peak_lag`: one dot a rebalance, larger with the lag it caused."""
    return (
        alt.Chart(frame)
        .mark_circle(opacity=0.7)
        .encode(
            x=_instants(),
            y=alt.Y("recovery_s:Q", title="seconds until lag had recovered"),
            size=alt.Size("peak_lag:Q", title="greatest lag, records"),
            color=alt.Color("group_id:N", title="group"),
            tooltip=["group_id:N", "at:T", "recovery_s:Q", "peak_lag:Q"],
        )
        .properties(width=WIDTH, height=220)
    )


def timeout_advice(frame: pd.DataFrame) -> Any:
    """`name`, `p50_ms`, `p99_ms`, `configured_ms`, `advised_ms`: observed waits against the timeout that guards them."""
    base = alt.Chart(frame).encode(y=alt.Y("name:N", title=None))
    scale = alt.Scale(type="log")
    waits = base.mark_bar(height=8, color="#2f6f9f", opacity=0.7).encode(
        x=alt.X("p50_ms:Q", title="ms: waits p50 to p99 (bar), configured (black), advised (red)", scale=scale),
        x2="p99_ms:Q",
        tooltip=["name:N", "p50_ms:Q", "p99_ms:Q", "configured_ms:Q", "advised_ms:Q"],
    )
    configured, advised = (
        base.mark_tick(thickness=3, size=16, color=color).encode(x=alt.X(f"{name}:Q", scale=scale))
        for name, color in (("configured_ms", INK), ("advised_ms", "#b3261e"))
    )
    return (waits + configured + advised).properties(width=WIDTH, height=_height(len(frame)))


def strategies(frame: pd.DataFrame) -> Any:
    """`strategy`, `notifications`, `generations`, `moved_partitions`, `stopped_partition_s`: four costs side by side."""
    order = frame.strategy.tolist()
    panels = [
        _bars(
            frame,
            alt.X(f"{name}:Q", title=None, axis=alt.Axis(tickCount=3)),
            "strategy",
            ["strategy:N", alt.Tooltip(f"{name}:Q", format=",.0f")],
            order=order,
            axis=alt.Axis() if place == 0 else None,
        ).properties(title=title, width=(WIDTH - 200) / 4)
        for place, (name, title) in enumerate(_COSTS.items())
    ]
    return alt.hconcat(*panels)


_COSTS: Final = {
    "notifications": "notifications",
    "generations": "generations",
    "moved_partitions": "moved partitions",
    "stopped_partition_s": "stopped partition-seconds",
}


def _bars(
    frame: pd.DataFrame,
    x: Any,
    y: str,
    tooltip: list[Any],
    *,
    order: Any = "-x",
    axis: Any = alt.Undefined,
    **more: Any,
) -> Any:
    """Horizontal bars, one line for each value of the column `y`, the longest first or as in `order`."""
    return (
        alt.Chart(frame)
        .mark_bar(height=14)
        .encode(x=x, y=alt.Y(f"{y}:N", title=None, sort=order, axis=axis), tooltip=tooltip, **more)
        .properties(width=WIDTH, height=_height(frame[y].nunique()))
    )


def _height(lines: int) -> int:
    return _ROW * max(lines, 1)
