"""One self-contained HTML file: what to fix, incidents, pictures of groups, charts, and rows of analyses. It loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2s, sha256
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from kshim.drawing import Picture, legend, svg
from kshim.drawing.svg import shortened, span_text
from kshim.drawing.vocabulary import CSS as DRAWING_CSS
from kshim.drawing.vocabulary import DARK
from kshim.explain.html import CSS, INCIDENT_CSS, culprit, frame, how_sure, incident_section, text, time_element
from kshim.wording import counted
from kshim_pipeline.report.drawn import CHART_CSS, drawn
from kshim_pipeline.report.incidents import ToFix, to_fix, why_command


class Section(NamedTuple):
    """One question with its answer. `chart` is a Vega-Lite document; None: `note` says why there is nothing to draw.

    `assumptions`: of what the chart shows, each with its name.
    """

    title: str
    question: str
    chart: Mapping[str, Any] | None
    note: str = ""
    assumptions: Sequence[tuple[str, str]] = ()


class Finding(NamedTuple):
    """One row of an analysis: `severity` is critical, warning or info; `basis` observed or inferred. Times are ms since 1970."""

    analysis: str
    severity: str
    group_id: str | None
    from_ms: int | None
    sentence: str
    advice: str
    basis: str
    evidence: str


class GroupSummary(NamedTuple):
    """A group in the list. `lag`: of all its partitions when log ends were sampled last; None: unknown."""

    group_id: str
    incident_count: int
    rebalance_count: int
    stopped_ms: int | None
    lag: int | None


class Page(NamedTuple):
    """Everything on the page. `facts` are shown as tiles: name and value, in this order.

    `incidents` are objects of `kshim_pipeline.report.incidents`, the worst first; `pictures` the swim lanes of groups, by name.
    `why_source`: options of `kshim why` that read the same history.
    """

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    findings: Sequence[Finding]
    sections: Sequence[Section]
    findings_omitted: int = 0
    incidents: Sequence[Mapping[str, Any]] = ()
    incidents_omitted: int = 0
    pictures: Mapping[str, Picture] = {}
    groups: Sequence[GroupSummary] = ()
    groups_omitted: int = 0
    questions: Mapping[str, str] = {}
    why_source: str = "--bootstrap-server HOST:PORT"


_FOLDER = Path(__file__).parent
_WIDTH = 1_240
_NAME_LENGTH = 60
_GROUPS_LINKED = 5
_NOTHING_TO_FIX = (
    "<section id='fix'><h2>Nothing to fix</h2><p>Whatever disturbed groups was wanted, such as a start or a deployment, "
    "as far as was read.</p></section>"
)


def render(page: Page) -> str:
    """The file's text. Names in it may be anything."""
    ids = {id(incident): f"incident-{number}" for number, incident in enumerate(page.incidents)}
    lags = {group.group_id: group.lag for group in page.groups}
    script = (_FOLDER / "report.js").read_text(encoding="utf-8")
    body = [
        _header(page),
        "<main>",
        _to_fix(page, ids, lags),
        _tiles(page),
        _incidents(page, ids),
        *(_picture(name, picture, lags.get(name)) for name, picture in page.pictures.items()),
        _groups(page),
        "<h2 class='part' id='charts'>Charts</h2>",
        *(_section(section, number) for number, section in enumerate(page.sections)),
        _findings(page),
        "</main>",
        f"<script>{script}</script>",
    ]
    css = "\n".join(
        (
            CSS % {"width": _WIDTH},
            DARK,
            DRAWING_CSS,
            INCIDENT_CSS,
            CHART_CSS,
            (_FOLDER / "report.css").read_text(encoding="utf-8"),
        )
    )
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return frame(page.title, "\n".join(body), css, policy)


def anchor(group_id: str) -> str:
    """Where a group stands in the page, whatever its name is."""
    return f"group-{blake2s(group_id.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def _header(page: Page) -> str:
    return (
        f"<header><div><h1>{text(page.title)}</h1><p>{text(page.subtitle)}. Times are UTC.</p></div>"
        "<div role='search' hidden><label for='q'>Search</label> <input id='q' type='search' autocomplete='off' "
        "placeholder='group, client, host, cause'> <span id='found' role='status'></span></div></header>"
    )


def _tiles(page: Page) -> str:
    tiles = "".join(
        f"<div class='tile'><b>{text(value)}</b><span>{text(name)}</span></div>" for name, value in page.facts
    )
    return f"<div class='tiles'>{tiles}</div>"


# What to fix


def _to_fix(page: Page, ids: Mapping[int, str], lags: Mapping[str, int | None]) -> str:
    things = to_fix(page.incidents)
    if not things:
        return _NOTHING_TO_FIX
    cards = "".join(_card(page, thing, ids[id(thing.worst)], lags) for thing in things)
    count = "The one thing" if len(things) == 1 else f"The {('two', 'three')[len(things) - 2]} things"
    return f"<section id='fix'><h2>{count} to fix now, worst first</h2><ol class='fix'>{cards}</ol></section>"


def _card(page: Page, thing: ToFix, incident_id: str, lags: Mapping[str, int | None]) -> str:
    worst = thing.worst
    who = culprit(worst) or ", ".join(worst["clients"][:2]) or ", ".join(thing.groups[:2])
    lasted = span_text(worst["to_ms"] - worst["from_ms"])
    times = f"; {len(thing.incidents)} times in all" if len(thing.incidents) > 1 else ""
    host = worst["host"] if worst["host"] and worst["host"] not in who else ""
    lag = [lags[name] for name in thing.groups if lags.get(name) is not None]
    rows = [
        ("When", f"{time_element(worst['from_ms'])}, for {lasted}{times}"),
        (
            "Group" if len(thing.groups) == 1 else "Groups",
            _links(thing.groups) + (f"; lag {sum(filter(None, lag)):,}" if lag else ""),
        ),
        ("Host", text(host)),
        ("How sure", f"{how_sure(worst)}, {text(worst['basis'])}"),
        ("To change", f"<b>{text(worst['advice'] or 'Look at the evidence: nothing is known to change.')}</b>"),
        ("See it", f"<code>{text(why_command(worst, page.why_source))}</code>"),
    ]
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return (
        f"<li><h3>{_severity(worst['severity'])} {text(worst['cause'])}</h3><p class='culprit'>⚑ {text(shortened(who, _NAME_LENGTH))}</p>"
        f"<p class='what'>{text(worst['sentence'])}</p><dl>{shown}</dl>"
        f"<p class='evidence'><a href='#{incident_id}'>Evidence</a>{_picture_link(page, thing.groups)}</p></li>"
    )


def _picture_link(page: Page, groups: Iterable[str]) -> str:
    drawn_one = next((name for name in groups if name in page.pictures), None)
    return "" if drawn_one is None else f" · <a href='#{anchor(drawn_one)}'>Picture of {_name(drawn_one)}</a>"


# All incidents


def _incidents(page: Page, ids: Mapping[int, str]) -> str:
    if not page.incidents:
        return "<h2 class='part' id='incidents'>Incidents</h2><section><p class='none'>Nothing has disturbed a group, as far as was read.</p></section>"
    shown = "".join(
        f"<div data-find>{incident_section(each, ids[id(each)], _more(page, each))}</div>" for each in page.incidents
    )
    omitted = (
        f"<p class='none'>and {page.incidents_omitted} more, less bad, in the table `incidents`.</p>"
        if page.incidents_omitted
        else ""
    )
    return f"<h2 class='part' id='incidents'>All incidents, worst first</h2>{shown}{omitted}"


def _more(page: Page, incident: Mapping[str, Any]) -> list[tuple[str, str]]:
    groups = incident["groups"]
    return [
        ("Severity", _severity(incident["severity"])),
        ("Group" if len(groups) == 1 else "In this page", _links(groups) + _picture_link(page, groups)),
        ("See it", f"<code>{text(why_command(incident, page.why_source))}</code>"),
    ]


def _links(groups: Sequence[str]) -> str:
    shown = ", ".join(f"<a href='#{anchor(name)}'>{_name(name)}</a>" for name in groups[:_GROUPS_LINKED])
    return shown + (f" and {len(groups) - _GROUPS_LINKED} more" if len(groups) > _GROUPS_LINKED else "")


# Groups


def _picture(group_id: str, picture: Picture, lag: int | None) -> str:
    known = "lag unknown" if lag is None else f"lag {lag:,}"
    return (
        f"<section class='wide' id='{anchor(group_id)}' data-find tabindex='0' aria-label='Group {escape(shortened(group_id, _NAME_LENGTH))}'>"
        f"<h2>What happened to {_name(group_id)}</h2><p>From {time_element(picture.from_ms)} to {time_element(picture.to_ms)}; {known}. "
        "Quiet time is cut out.</p>"
        f"{svg(picture, f'Members and partitions of {shortened(group_id, _NAME_LENGTH)}')}{legend(picture)}</section>"
    )


def _groups(page: Page) -> str:
    if not page.groups:
        return ""
    rows = "".join(_group_row(group, has_picture=group.group_id in page.pictures) for group in page.groups)
    omitted = f"<p class='none'>and {page.groups_omitted} more, calmer ones.</p>" if page.groups_omitted else ""
    return (
        "<section class='wide' id='groups' tabindex='0' aria-label='Groups'><h2>Groups</h2><table><thead><tr><th scope='col'>Group</th>"
        "<th scope='col' class='n'>Incidents</th><th scope='col' class='n'>Rebalances</th><th scope='col' class='n'>Spent rebalancing</th>"
        f"<th scope='col' class='n'>Lag</th></tr></thead><tbody>{rows}</tbody></table>{omitted}</section>"
    )


def _group_row(group: GroupSummary, *, has_picture: bool) -> str:
    name, place = _name(group.group_id), anchor(group.group_id)
    linked, element_id = (f"<a href='#{place}'>{name}</a>", "") if has_picture else (name, f" id='{place}'")
    return (
        f"<tr data-find{element_id}><th scope='row'>{linked}</th><td class='n'>{group.incident_count}</td><td class='n'>{group.rebalance_count:,}</td>"
        f"<td class='n'>{'-' if group.stopped_ms is None else span_text(group.stopped_ms)}</td>"
        f"<td class='n'>{'unknown' if group.lag is None else f'{group.lag:,}'}</td></tr>"
    )


# Charts and rows


def _section(section: Section, number: int) -> str:
    title = text(section.title)
    if section.chart is None:
        return f"<section><h3>{title}</h3><p>{text(section.question)}</p><p class='none'>{text(section.note)}</p></section>"
    said = ""
    if section.assumptions:
        rows = "".join(f"<dt>{text(name)}</dt><dd>{text(words)}</dd>" for name, words in section.assumptions)
        said = f"<h4>What it assumes</h4><dl>{rows}</dl>"
    return (
        f"<section class='wide' tabindex='0' aria-label='{title}'><h3>{title}</h3><p>{text(section.question)}</p>"
        f"{drawn(section.chart, f'{section.title}: {section.question}', f'chart-{number}')}{said}</section>"
    )


def _findings(page: Page) -> str:
    if not page.findings:
        return "<section id='rows'><h2>What the analyses measured</h2><p class='none'>No findings.</p></section>"
    by_analysis: dict[str, list[Finding]] = {}
    for finding in page.findings:
        by_analysis.setdefault(finding.analysis, []).append(finding)
    folded = "".join(_analysis(name, rows, page.questions.get(name, "")) for name, rows in by_analysis.items())
    omitted = (
        f"<p class='none'>{page.findings_omitted} more are in the table `findings`.</p>"
        if page.findings_omitted
        else ""
    )
    return (
        "<section id='rows' class='wide' tabindex='0' aria-label='What the analyses measured'><h2>What the analyses measured</h2>"
        "<p>Most severe first. What an incident explains is not repeated here. Observed: reported by the broker. Inferred: concluded from "
        f"records.</p>{folded}{omitted}</section>"
    )


def _analysis(name: str, rows: Sequence[Finding], question: str) -> str:
    shown = "".join(
        f"<tr data-find><td>{_severity(row.severity)}</td><td class='t'>{'-' if row.from_ms is None else time_element(row.from_ms)}</td>"
        f"<td>{'several' if row.group_id is None else _links([row.group_id])}</td>"
        f"<td>{text(row.sentence)}<div class='advice'>{text(row.advice)}</div></td><td>{text(row.basis)}</td><td class='evidence'>{text(row.evidence)}</td></tr>"
        for row in rows
    )
    return (
        f"<details><summary><b>{text(name)}</b>: {counted(len(rows), 'row')}, worst {text(rows[0].severity)}. {text(question)}</summary><table><thead><tr>"
        "<th scope='col'>Severity</th><th scope='col'>From</th><th scope='col'>Group</th><th scope='col'>What</th><th scope='col'>Basis</th>"
        f"<th scope='col'>Evidence</th></tr></thead><tbody>{shown}</tbody></table></details>"
    )


def _severity(severity: str) -> str:
    return f"<span class='severity {text(severity)}'>{text(severity)}</span>"


def _name(group_id: str) -> str:
    return f"<bdi>{text(shortened(group_id, _NAME_LENGTH))}</bdi>"
