"""Incidents as one HTML file: the document of `kshim.explain.document`, with a timeline of each group. It loads nothing, and has no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from kshim.drawing import Picture, legend, svg
from kshim.drawing.vocabulary import CSS as DRAWING_CSS
from kshim.drawing.vocabulary import DARK, LIGHT
from kshim.explain.causes import Cause, Subject
from kshim.explain.effects import effect_of
from kshim.explain.words import effect_text, time_text
from kshim.wording import counted, escaped

CSS = f"""
{LIGHT}
body {{ color: var(--ink); background: var(--ground); font: 15px/1.5 Inter, system-ui, Helvetica, Arial, sans-serif;
  max-width: %(width)dpx; margin: 0 auto; padding: 24px; }}
header h1 {{ margin: 0; font-size: 26px; }} header p {{ margin: 4px 0 20px; color: var(--quiet); }}
.tiles {{ display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 20px; }}
.tile {{ background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; min-width: 120px; }}
.tile b {{ display: block; font-size: 22px; }} .tile span {{ color: var(--quiet); font-size: 13px; }}
section {{ background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 16px 20px; margin-bottom: 18px;
  overflow-x: auto; }}
section h2 {{ margin: 0; font-size: 17px; }} section p {{ margin: 2px 0 12px; color: var(--quiet); }}
.none {{ color: var(--quiet); font-style: italic; }}
table {{ border-collapse: collapse; width: 100%%; }} td, th {{ text-align: left; padding: 6px 8px; vertical-align: top;
  border-top: 1px solid var(--line); }} th {{ color: var(--quiet); font-weight: normal; border-top: 0; }}
""".strip()
"""Of all pages, with the `width` of the text. It has no dark colours: DARK adds them."""

INCIDENT_CSS = """
.incident .cause { color: #fff; border-radius: 4px; padding: 1px 7px; font-weight: normal; }
.cause.client { background: #c2410c; } .cause.clients { background: #1d4ed8; } .cause.group { background: #0f766e; }
.cause.host { background: #9b1c1c; } .cause.broker { background: #6d28d9; } .cause.unknown { background: #59636e; }
rect.client { fill: #c2410c; } rect.clients { fill: #1d4ed8; } rect.group { fill: #0f766e; } rect.host { fill: #9b1c1c; }
rect.broker { fill: #6d28d9; } rect.unknown { fill: #6b7280; }
section p.what { color: var(--ink); margin: 8px 0; font-size: 16px; } section p.culprit { color: var(--culprit); font-weight: 700;
  font-size: 20px; margin: 6px 0 0; } dl { display: grid; grid-template-columns: 9em 1fr; gap: 4px 12px; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; } dd ul { margin: 0; padding-left: 18px; } li.against { color: var(--quiet); font-style: italic; }
.incident h3 { margin: 0; font-size: 15px; } section p.advice { color: var(--ink); font-weight: 600; } dl { align-content: start; } .incident summary { color: var(--quiet); font-size: 13px; }
@media (min-width: 900px) { .incident { display: grid; grid-template-columns: 2fr 3fr; gap: 0 24px; } }
""".strip()
"""Of what is said of incidents."""

_OWN_CSS = """
body, td { overflow-wrap: anywhere; }
svg.incidents { display: block; width: 100%; height: auto; } svg.incidents text { font: 11px system-ui, sans-serif; fill: var(--quiet); }
""".strip()

_WIDTH = 1_000
_FOR = ("must", "likely")
_AGAINST = ("unlikely", "must_not")
_LANE_HEIGHT = 18
_AXIS_HEIGHT = 20
_LEAST_BAR = 4.0
"""So that an incident of a moment can be seen in a week."""
_SEPARATE = 2.0


def page(document: Mapping[str, Any], pictures: Mapping[str, Picture] | None = None) -> str:
    """The file's text, with the swim lanes of groups where there are `pictures`. Names in it may be anything."""
    incidents = document["incidents"]
    groups = sorted({group for incident in incidents for group in incident["groups"]})
    body = [_header(document, len(groups))]
    body += [
        _timeline(
            group, [each for each in enumerate(incidents) if group in each[1]["groups"]], (pictures or {}).get(group)
        )
        for group in groups
    ]
    body += [incident_section(incident, f"incident-{number}") for number, incident in enumerate(incidents)]
    if not incidents:
        body.append("<section><p class='none'>Nothing has disturbed a group, as far as was read.</p></section>")
    css = "\n".join((CSS % {"width": _WIDTH + 100}, DARK, DRAWING_CSS, INCIDENT_CSS, _OWN_CSS))
    return frame("Why groups rebalanced", "\n".join(body), css)


def frame(title: str, body: str, css: str, policy: str = "") -> str:
    """A whole file around `body`, which is HTML. `policy`: its content security policy."""
    allowed = f"<meta http-equiv='Content-Security-Policy' content=\"{policy}\">\n" if policy else ""
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f"{allowed}<meta name='viewport' content='width=device-width'>\n"
        f"<title>{text(title)}</title>\n<style>\n{css}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def text(value: str) -> str:
    """Any text as HTML, in one line."""
    return escape(escaped(value))


def _header(document: Mapping[str, Any], group_count: int) -> str:
    tiles = [
        (str(len(document["incidents"])), "incidents"),
        (str(group_count), "groups"),
        (", ".join(document["sources"]) or "none", "sources"),
    ]
    if document["since_ms"] is not None:
        tiles.append((time_text(document["since_ms"]), "oldest record that was read"))
    if document["damaged"]:
        tiles.append((", ".join(document["damaged"]), "damaged, and read in part"))
    shown = "".join(f"<div class='tile'><b>{text(value)}</b><span>{name}</span></div>" for value, name in tiles)
    return f"<header><h1>Why groups rebalanced</h1><p>Times are UTC.</p></header>\n<div class='tiles'>{shown}</div>"


def _timeline(group: str, mine: Sequence[tuple[int, Mapping[str, Any]]], picture: Picture | None) -> str:
    """A bar for each incident, in as few lanes as hold them without overlapping; each leads to what is said of it. Below it
    the swim lanes of the group."""
    begin_ms = min(incident["from_ms"] for _, incident in mine)
    end_ms = max(incident["to_ms"] for _, incident in mine)
    span_ms = max(end_ms - begin_ms, 1)
    lanes: list[float] = []
    bars: list[str] = []
    for number, incident in mine:
        width = max((incident["to_ms"] - incident["from_ms"]) / span_ms * _WIDTH, _LEAST_BAR)
        left = min((incident["from_ms"] - begin_ms) / span_ms * _WIDTH, _WIDTH - width)
        lane = next((lane for lane, until in enumerate(lanes) if until + _SEPARATE <= left), len(lanes))
        lanes[lane : lane + 1] = [left + width]
        label = f"{incident['cause']} ({incident['confidence']:.0%}), {time_text(incident['from_ms'])}: {incident['sentence']}"
        bars.append(
            f"<a href='#incident-{number}' aria-label='{text(label)}'><rect x='{left:.1f}' y='{lane * _LANE_HEIGHT}' width='{width:.1f}' "
            f"height='{_LANE_HEIGHT - 4}' rx='2' class='{_subject(incident)}'><title>{text(label)}</title></rect></a>"
        )
    low = len(lanes) * _LANE_HEIGHT
    axis = f"<line x1='0' x2='{_WIDTH}' y1='{low}' y2='{low}' stroke='currentColor'/>"
    axis += f"<text x='0' y='{low + 14}'>{time_text(begin_ms)}</text>"
    axis += f"<text x='{_WIDTH}' y='{low + 14}' text-anchor='end'>{time_text(end_ms)}</text>"
    return (
        f"<section><h2>{text(group)}</h2><p>{counted(len(mine), 'incident')}</p>"
        f"<svg class='incidents' viewBox='0 0 {_WIDTH} {low + _AXIS_HEIGHT}' role='group' aria-label='Incidents'>{''.join(bars)}{axis}"
        f"</svg>{'' if picture is None else svg(picture, f'Members and partitions of {group}') + legend(picture)}</section>"
    )


def _subject(incident: Mapping[str, Any]) -> str:
    """Its class, which is coloured."""
    return "unknown" if incident["cause"] == Cause.UNKNOWN.keyword else str(Subject(incident["subject"]))


def incident_section(incident: Mapping[str, Any], element_id: str, more: Iterable[tuple[str, str]] = ()) -> str:
    """All that is known of an incident: first who and what, then what to change, then the evidence.

    `more`: other rows, as a name and HTML.
    """
    who = culprit(incident)
    clients, host = incident["clients"], incident["host"] or ""
    others = "".join(
        f"<li>{text(other['cause'])} ({other['confidence']:.0%}){_folded(_evidence(other['evidence']))}</li>"
        for other in incident["alternatives"]
    )
    rows = [
        ("Effects", _list(effect_text(effect_of(each)) for each in incident["effects"])),
        ("Groups", _list(incident["groups"]) if len(incident["groups"]) > 1 else ""),
        ("Clients", _list(clients) if clients != [who] else ""),
        ("Host", text(host) if host not in who else ""),
        ("Evidence", _evidence(incident["evidence"])),
        ("Alternatives", f"<ul>{others}</ul>" if others else ""),
        ("What would tell", text(incident["would_tell"] or "")),
        *more,
    ]
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    advice = f"<h3>What to change</h3><p class='advice'>{text(incident['advice'])}</p>" if incident["advice"] else ""
    flag = f"<p class='culprit'>⚑ {text(who)}</p>" if who else ""
    return (
        f"<section class='incident' id='{element_id}'><div><h2><b class='cause {_subject(incident)}'>{text(incident['cause'])}</b> "
        f"{how_sure(incident)}, {text(incident['basis'])}</h2>"
        f"<p>{time_element(incident['from_ms'])} to {time_element(incident['to_ms'])}</p>{flag}"
        f"<p class='what'>{text(incident['sentence'])}</p>"
        f"<details><summary>Sources</summary><p>{text(', '.join(incident['sources']))}</p></details></div>"
        f"<div>{advice}<dl>{shown}</dl></div></section>"
    )


def how_sure(incident: Mapping[str, Any]) -> str:
    """How probable its cause is; of what is unknown the best guess."""
    if incident["cause"] == Cause.UNKNOWN.keyword and incident["alternatives"]:
        best = incident["alternatives"][0]
        return f"perhaps {text(best['cause'])} ({best['confidence']:.0%})"
    return f"{incident['confidence']:.0%} sure"


def culprit(incident: Mapping[str, Any]) -> str:
    """Who is responsible, in a few words; empty where nobody is."""
    match Subject(incident["subject"]):
        case Subject.CLIENT:
            return next(iter(incident["clients"]), "") or "a client without a name"
        case Subject.HOST:
            return f"host {incident['host']}" if incident["host"] is not None else "several hosts"
        case Subject.BROKER:
            return "the broker"
        case Subject.CLIENTS | Subject.GROUP:
            return ""


def time_element(ts_ms: int) -> str:
    """A time in UTC, as an element that says it to programs, too."""
    return f"<time datetime='{iso(ts_ms)}' data-ms='{ts_ms}'>{time_text(ts_ms)}</time>"


def iso(ts_ms: int) -> str:
    """A time in UTC as HTML has it."""
    return datetime.fromtimestamp(ts_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _folded(evidence: str) -> str:
    return f"<details><summary>evidence</summary>{evidence}</details>" if evidence else ""


def _list(values: Iterable[str]) -> str:
    items = "".join(f"<li>{text(value)}</li>" for value in values)
    return f"<ul>{items}</ul>" if items else ""


def _evidence(evidence: Iterable[Mapping[str, str]]) -> str:
    items = dict.fromkeys((each["text"], each["weight"]) for each in evidence)
    shown = [
        f"<li class='{'for' if weight in _FOR else 'against'}'><b>{'for' if weight in _FOR else 'against'}:</b> {text(words)}</li>"
        for words, weight in sorted(items, key=lambda each: each[1] not in _FOR)
        if weight in _FOR or weight in _AGAINST
    ]
    return f"<ul>{''.join(shown)}</ul>" if shown else ""
