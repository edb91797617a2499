"""One self-contained HTML file: charts, findings, and the script that draws them."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kshim.explain.html import CSS, frame
from kshim_pipeline.report.style import SEVERITY_COLORS, WIDTH


class Section(NamedTuple):
    """One question with its answer. `chart` is a Vega-Lite document; None: `note` says why there is nothing to draw."""

    title: str
    question: str
    chart: Mapping[str, Any] | None
    note: str = ""


class Finding(NamedTuple):
    """One row of the list: `severity` is critical, warning or info; `basis` observed or inferred."""

    severity: str
    group_id: str
    sentence: str
    advice: str
    basis: str
    evidence: str


class Page(NamedTuple):
    """Everything on the page. `facts` are shown as tiles: name and value, in this order."""

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    findings: Sequence[Finding]
    sections: Sequence[Section]
    findings_omitted: int = 0


_OWN_CSS = """
td.evidence { color: #7b8794; font-size: 12px; } .severity { color: #fff; border-radius: 4px; padding: 1px 7px;
  font-size: 12px; } .group { font-weight: 600; white-space: nowrap; } .advice { color: #52606d; }
""".strip()


def render(page: Page, javascript: str) -> str:
    """The file's text. `javascript` defines `vegaEmbed` as a module export (`vl_convert.javascript_bundle`)."""
    body = [_header(page), _findings(page)]
    charts: dict[str, Any] = {}
    for number, section in enumerate(page.sections):
        body.append(_section(section, f"chart-{number}"))
        if section.chart is not None:
            charts[f"chart-{number}"] = section.chart
    script = (
        f"{_in_script(javascript)}\n"
        f"const charts = {_in_script(json.dumps(charts, separators=(',', ':'), default=str))};\n"
        "for (const [id, spec] of Object.entries(charts)) "
        "vegaEmbed('#' + id, spec, {actions: false, renderer: 'svg'});\n"
    )
    body.append(f"<script type='module'>\n{script}</script>")
    return frame(page.title, "\n".join(body), CSS % {"width": WIDTH + 300} + "\n" + _OWN_CSS)


def _in_script(text: str) -> str:
    """Text that cannot end the script element it stands in."""
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")


def _header(page: Page) -> str:
    tiles = "".join(
        f"<div class='tile'><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>"
        for name, value in page.facts
    )
    return (
        f"<header><h1>{html.escape(page.title)}</h1><p>{html.escape(page.subtitle)}</p></header>\n"
        f"<div class='tiles'>{tiles}</div>"
    )


def _findings(page: Page) -> str:
    if not page.findings:
        return "<section><h2>Findings</h2><p class='none'>No findings.</p></section>"
    rows = "".join(
        f"<tr><td><span class='severity' style='background:{SEVERITY_COLORS.get(finding.severity, '#6b7280')}'>"
        f"{html.escape(finding.severity)}</span></td><td class='group'>{html.escape(finding.group_id)}</td>"
        f"<td>{html.escape(finding.sentence)}<div class='advice'>{html.escape(finding.advice)}</div></td>"
        f"<td>{html.escape(finding.basis)}</td><td class='evidence'>{html.escape(finding.evidence)}</td></tr>"
        for finding in page.findings
    )
    more = (
        f"<p class='none'>{page.findings_omitted} more are in the table `findings`.</p>"
        if page.findings_omitted
        else ""
    )
    return (
        "<section><h2>Findings</h2><p>Most severe first. Observed: reported by the broker. Inferred: concluded from records."
        "</p><table><tr><th></th><th>group</th><th>what</th><th>basis</th><th>evidence</th></tr>"
        f"{rows}</table>{more}</section>"
    )


def _section(section: Section, chart_id: str) -> str:
    drawn = (
        f"<div id='{chart_id}'></div>"
        if section.chart is not None
        else f"<p class='none'>{html.escape(section.note)}</p>"
    )
    return f"<section><h2>{html.escape(section.title)}</h2><p>{html.escape(section.question)}</p>{drawn}</section>"
