"""Pages of the report, made of rows written by hand."""

from __future__ import annotations

from typing import Any

from kshim_pipeline.diagnosis.facts import Entry
from kshim_pipeline.report.incidents import incident_object, worst_first
from kshim_pipeline.report.page import Finding, GroupSummary, Page, Section
from kshim_pipeline.report.pictures import picture_of
from kshim_pipeline.report.style import theme
from tests.page.groups import MINUTE, SECOND, START, billing

HOSTILE = "</script><script>alert('g')</script>\u202e"
CHART: dict[str, Any] = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "mark": {"type": "bar", "color": "#2f6f9f"},
    "data": {"values": [{"group": HOSTILE, "n": 3}, {"group": "billing", "n": 5}]},
    "encoding": {"y": {"field": "group", "type": "nominal"}, "x": {"field": "n", "type": "quantitative"}},
    "width": 600,
    "config": theme(),
}


def a_row(cause: str = "killed", *groups: str, **fields: Any) -> dict[str, Any]:
    """A row of INCIDENTS: the member bill-2 of group billing was killed."""
    row = {
        "groups": list(groups) or ["billing"],
        "cause": cause,
        "subject": "client",
        "clients": ["bill-2@10.0.0.2"],
        "host": "10.0.0.2",
        "member_ids": ["slow-2"],
        "from_ms": START + 4 * MINUTE - 45 * SECOND,
        "to_ms": START + 4 * MINUTE + 3 * SECOND,
        "confidence": 0.93,
        "basis": "observed",
        "sentence": "bill-2@10.0.0.2 was killed or crashed: it ended without leaving the group.",
        "advice": "Look for an OOM kill or a crash on the host; a lower session.timeout.ms (now 45 s) notices it sooner.",
        "would_tell": None,
        "effects": [],
        "reasons": [],
        "alternatives": [],
        "evidence": [{"topic": "__kshim_events", "partition": 3, "offset": 17}, {"topic": "log", "partition": None, "offset": 4}],
    }  # fmt: skip
    return row | fields


def incidents() -> list[Any]:
    """Five, of four culprits."""
    rows = [
        a_row(),
        a_row("slow_poll", from_ms=START + MINUTE, to_ms=START + MINUTE + 40 * SECOND,
              sentence="bill-2@10.0.0.2 did not call poll() in time while it processed records.",
              advice="Lower max.poll.records, so that a batch takes less time; a longer max.poll.interval.ms (now 60 s) keeps the member, but the others wait longer for it."),
        a_row("slow_poll", from_ms=START + 10 * MINUTE, to_ms=START + 10 * MINUTE + 5 * SECOND,
              sentence="bill-2@10.0.0.2 did not call poll() in time while it processed records.", advice="Lower max.poll.records."),
        a_row("crash_loop", "mail", clients=["mail-3@10.0.0.9"], host="10.0.0.9", from_ms=START, to_ms=START + 30 * SECOND,
              sentence="mail-3@10.0.0.9 crashes and is started again, 4 times until now.",
              advice="Read the client's log for the crash, and delay restarts meanwhile."),
        a_row("deploy", "billing", "mail", subject="group", clients=["bill-3@10.0.0.3"], host=None, from_ms=START,
              to_ms=START + 20 * MINUTE, sentence="Deployment: bill-3@10.0.0.3 of billing and mail were stopped in order and replaced.", advice="Set group.instance.id."),
    ]  # fmt: skip
    effect = {
        "group": "billing", "rebalance_count": 1, "join_ms": 3_000, "sync_ms": 30, "last_to_join": "bill-1@10.0.0.1",
        "last_wait_ms": 3_000, "unowned_ms": None, "is_observed": True,
    }  # fmt: skip
    of_billing = [row | {"effects": [effect]} if "billing" in row["groups"] else row for row in rows]
    return worst_first(map(incident_object, of_billing))


def ownership() -> list[dict[str, Any]]:
    """Rows of the table ownership: three partitions of the group billing."""
    first, second, third = START + 30, START + MINUTE + 40_080, START + 4 * MINUTE + 3_030
    rows = [
        (0, "fast-1", first, None), (1, "slow-2", first, third), (1, "fast-1", third, None),
        (2, "slow-2", first, second), (2, "third-3", second, None),
    ]  # fmt: skip
    return [
        {"topic": "orders", "partition": partition, "owner": owner, "member_id": owner, "from_ts_ms": from_ms, "to_ts_ms": to_ms}
        for partition, owner, from_ms, to_ms in rows
    ]  # fmt: skip


def lags() -> list[dict[str, Any]]:
    """Where the group billing stands in its partitions."""
    return [
        {"topic": "orders", "partition": number, "committed_offset": 40, "lag": lag}
        for number, lag in enumerate((0, 12_345, 3))
    ]


def a_page(**parts: Any) -> Page:
    """A fleet with five incidents, a chart with a hostile name, and rows of two analyses."""
    found = incidents()
    entries = [Entry("billing", fact, None) for fact in billing().facts]
    mine = [each for each in found if "billing" in each["groups"]]
    picture = picture_of("billing", entries, mine, ownership=ownership(), lags=lags(), now_ms=START + 20 * MINUTE)
    page = Page(
        title="Why consumer groups rebalanced",
        subtitle="2026-11-18 11:06:40 UTC to 2026-11-18 11:26:40 UTC, read from history",
        facts=[("groups", "3"), ("rebalances", "14"), ("incidents", "5")],
        findings=[
            Finding("stuck", "critical", HOSTILE, START, f"Partition t-0 of {HOSTILE} makes no progress.", "Do something.", "inferred", "p-3, offset 12"),
            Finding("stickiness", "info", None, None, "The assignor range moved 9 of 12 partitions.", "", "inferred", ""),
        ],
        sections=[
            Section("Storms", "Which groups rebalance most?", CHART, assumptions=[("eager", "heartbeats every 3 s")]),
            Section("Lag", "Who catches up?", None, "No log ends were sampled."),
        ],
        incidents=found,
        pictures={"billing": picture},
        groups=[
            GroupSummary("billing", 4, 3, 43_130, 12_348), GroupSummary("mail", 2, 9, 9_000, None), GroupSummary(HOSTILE, 0, 2, None, 0),
        ],
        questions={"stuck": "Which partitions make no progress?"},
    )  # fmt: skip
    return page._replace(**parts)
