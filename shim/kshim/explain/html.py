"""Incidents as one HTML file: the document of `kshim.explain.document`, with a timeline of each group. It loads nothing, and has no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from kshim.explain.causes import Cause, Subject
from kshim.explain.effects import Effect
from kshim.explain.words import effect_text, time_text
from kshim.wording import counted, escaped

CSS = """
:root { color: #1f2933; background: #f5f7fa; font: 15px/1.5 Inter, system-ui, Helvetica, Arial, sans-serif; }
body { max-width: %(width)dpx; margin: 0 auto; padding: 24px; }
header h1 { margin: 0; font-size: 26px; } header p { margin: 4px 0 20px; color: #52606d; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 20px; }
.tile { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; padding: 10px 16px; min-width: 120px; }
.tile b { display: block; font-size: 22px; } .tile span { color: #7b8794; font-size: 13px; }
section { background: #fff; border: 1px solid #e4e7eb; border-radius: 8px; padding: 16px 20px; margin-bottom: 18px;
  overflow-x: auto; }
section h2 { margin: 0; font-size: 17px; } section p { margin: 2px 0 12px; color: #52606d; }
.none { color: #7b8794; font-style: italic; }
table { border-collapse: collapse; width: 100%%; } td, th { text-align: left; padding: 6px 8px; vertical-align: top;
  border-top: 1px solid #e4e7eb; } th { color: #7b8794; font-weight: normal; border-top: 0; }
""".strip()
"""Of all pages, with the `width` of the text."""

_OWN_CSS = """
body, td { overflow-wrap: anywhere; } section h2 b { color: #fff; border-radius: 4px; padding: 1px 7px; font-weight: normal; }
section p.what { color: #1f2933; margin: 8px 0; } dl { display: grid; grid-template-columns: 9em 1fr; gap: 4px 12px; margin: 0; }
dt { color: #7b8794; } dd { margin: 0; } ul { margin: 0; padding-left: 18px; } li.against { color: #9b1c1c; }
svg { display: block; width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: #52606d; }
""".strip()

_WIDTH = 1_000
_COLOURS = {
    Subject.CLIENT: "#c2410c",
    Subject.CLIENTS: "#1d4ed8",
    Subject.GROUP: "#0f766e",
    Subject.HOST: "#9b1c1c",
    Subject.BROKER: "#6d28d9",
}
_UNKNOWN_COLOUR = "#6b7280"
_FOR = ("must", "likely")
_AGAINST = ("unlikely", "must_not")
_LANE_HEIGHT = 18
_AXIS_HEIGHT = 20
_LEAST_BAR = 4.0
"""So that an incident of a moment can be seen in a week."""
_SEPARATE = 2.0


def page(document: Mapping[str, Any]) -> str:
    """The file's text. Names in it may be anything."""
    incidents = document["incidents"]
    groups = sorted({group for incident in incidents for group in incident["groups"]})
    body = [_header(document, len(groups))]
    body += [
        _timeline(group, [each for each in enumerate(incidents) if group in each[1]["groups"]]) for group in groups
    ]
    body += [_incident(number, incident) for number, incident in enumerate(incidents)]
    if not incidents:
        body.append("<section><p class='none'>Nothing has disturbed a group, as far as was read.</p></section>")
    return frame("Why groups rebalanced", "\n".join(body), CSS % {"width": _WIDTH + 100} + "\n" + _OWN_CSS)


def frame(title: str, body: str, css: str) -> str:
    """A whole file around `body`, which is HTML."""
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width'>\n"
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


def _timeline(group: str, mine: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    """A bar for each incident, in as few lanes as hold them without overlapping; each leads to what is said of it."""
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
            f"<a href='#incident-{number}'><rect x='{left:.1f}' y='{lane * _LANE_HEIGHT}' width='{width:.1f}' "
            f"height='{_LANE_HEIGHT - 4}' rx='2' fill='{_colour(incident)}'><title>{text(label)}</title></rect></a>"
        )
    low = len(lanes) * _LANE_HEIGHT
    axis = f"<line x1='0' x2='{_WIDTH}' y1='{low}' y2='{low}' stroke='#cbd2d9'/>"
    axis += f"<text x='0' y='{low + 14}'>{time_text(begin_ms)}</text>"
    axis += f"<text x='{_WIDTH}' y='{low + 14}' text-anchor='end'>{time_text(end_ms)}</text>"
    return (
        f"<section><h2>{text(group)}</h2><p>{counted(len(mine), 'incident')}</p>"
        f"<svg viewBox='0 0 {_WIDTH} {low + _AXIS_HEIGHT}' role='img'>{''.join(bars)}{axis}</svg></section>"
    )


def _colour(incident: Mapping[str, Any]) -> str:
    return _UNKNOWN_COLOUR if incident["cause"] == Cause.UNKNOWN.keyword else _COLOURS[Subject(incident["subject"])]


def _incident(number: int, incident: Mapping[str, Any]) -> str:
    rows = [("Groups", _list(incident["groups"])), ("Clients", _list(incident["clients"]))]
    rows.append(("Host", text(incident["host"] or "")))
    rows.append(("Effects", _list(effect_text(Effect(**each)) for each in incident["effects"])))
    rows.append(("Evidence", _evidence(incident["evidence"])))
    others = "".join(
        f"<li>{text(other['cause'])} ({other['confidence']:.0%}){_evidence(other['evidence'])}</li>"
        for other in incident["alternatives"]
    )
    rows.append(("Alternatives", f"<ul>{others}</ul>" if others else ""))
    rows.append(("To change", text(incident["advice"] or "")))
    rows.append(("What would tell", text(incident["would_tell"] or "")))
    rows.append(("Explains", text(", ".join(incident["sources"]))))
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return (
        f"<section id='incident-{number}'><h2><b style='background:{_colour(incident)}'>{text(incident['cause'])}</b> "
        f"{incident['confidence']:.0%}, {text(incident['basis'])}</h2>"
        f"<p>{time_text(incident['from_ms'])} to {time_text(incident['to_ms'])}</p>"
        f"<p class='what'>{text(incident['sentence'])}</p><dl>{shown}</dl></section>"
    )


def _list(values: Iterable[str]) -> str:
    items = "".join(f"<li>{text(value)}</li>" for value in values)
    return f"<ul>{items}</ul>" if items else ""


def _evidence(evidence: Iterable[Mapping[str, str]]) -> str:
    items = dict.fromkeys((each["text"], each["weight"]) for each in evidence)
    shown = [
        f"<li class='{'for' if weight in _FOR else 'against'}'>{'for' if weight in _FOR else 'against'} it: {text(words)}</li>"
        for words, weight in sorted(items, key=lambda each: each[1] not in _FOR)
        if weight in _FOR or weight in _AGAINST
    ]
    return f"<ul>{''.join(shown)}</ul>" if shown else ""
