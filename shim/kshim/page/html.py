"""The pages as HTML. Names in them may be anything; the script only makes them newer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2s
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from kshim.drawing import Picture, legend, svg
from kshim.drawing.svg import shortened, span_text
from kshim.explain.html import culprit, how_sure, incident_section, text, time_element
from kshim.explain.words import time_text
from kshim.page.lanes import picture
from kshim.page.values import GroupNow, GroupRow, MemberNow, Site, Turn
from kshim.wording import counted, escaped

PATH = "/page"
SCRIPT, STYLE = f"{PATH}/page.js", f"{PATH}/page.css"
ROWS_SHOWN = 200
"""Groups of the list; of more, a search finds the others."""
_TURNS_LISTED = 50
_MEMBERS_LISTED = 200
_NAME_LENGTH = 60
_CLOSE_UP_SHARE = 12
_LEAST_CLOSE_UP_MS = 200
EVENT_TYPES = (
    "rebalance_started", "join_completed", "target_computed", "rebalance_completed", "sync_completed", "rebalance_aborted",
    "member_joined", "member_left", "member_fenced", "member_reconciled", "member_refused", "group_converted", "group_emptied",
    "group_dead", "broker_stopping", "coordinator_loaded", "gap", "records_returned", "records_archived", "records_held",
)  # fmt: skip
"""Names of the server-sent events of the history: a browser has to know those that it listens to."""
_CALM = ("one_by_one_start", "scale_up", "scale_down", "deploy")
"""Causes that are wanted: what is wrong goes before them."""
_LINK = re.compile(rf" href='{PATH}[^']*'")
_DISTURBED = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


def groups_page(
    cluster: Site, rows: Sequence[GroupRow], *, search: str = "", group_count: int, found_count: int | None = None
) -> str:
    """All groups, or those that a search found, those with something wrong first, of at most `ROWS_SHOWN`."""
    found_count = len(rows) if found_count is None else found_count
    shown = rows[:ROWS_SHOWN]
    busy = sum(row.is_rebalancing for row in rows)
    head = f"{counted(group_count, 'group')}, {counted(busy, 'rebalance')} running" + (
        f"; {found_count} match {_quoted(search)}" if search else ""
    )
    if shown:
        body = (
            "<section class='wide' tabindex='0' aria-label='Groups'><table id='groups'><thead><tr><th>Group</th><th>State</th><th class='n'>Members</th>"
            "<th class='n'>Rebalances</th><th class='n'>Lag</th><th>Last rebalance</th><th>Why</th></tr></thead>"
            f"<tbody data-keyed>{''.join(_group_row(row, cluster.now_ms) for row in shown)}</tbody></table></section>"
        )
        if found_count > len(shown):
            body += (
                f"<p class='none'>and {found_count - len(shown)} more, in which less happened: search finds them.</p>"
            )
    elif search:
        body = f"<section><p class='none'>No group has {_quoted(search)} in its name. <a href='{PATH}'>Show all groups</a></p></section>"
    else:
        body = (
            "<section><h2>No consumer group yet</h2><p>As soon as a consumer with a <code>group.id</code> subscribes at one of "
            f"{text(cluster.title)}, its group appears here; this page does not have to be loaded again.</p></section>"
        )
    return _frame(
        cluster, "Groups", f"<h1>Groups</h1><p class='state' aria-live='polite'>{head}</p>{body}", search=search
    )


def group_page(
    cluster: Site, group: GroupNow, *, rebalance: int | None = None, at_ms: int | None = None, css: str | None = None
) -> str:
    """One group. `rebalance`: a close-up of the one with this number, or of that at `at_ms`. `css`: a file of its own."""
    if css is not None:
        cluster = cluster._replace(can_act=False)
    turn = _chosen(group, rebalance, at_ms)
    mine = [each for each in group.incidents if turn is None or _explains(each, turn)]
    incident = _worst(mine)
    drawn = _picture(group, turn, incident)
    parts = [
        f"<h1><bdi title='{_attribute(group.name)}'>{text(shortened(group.name, _NAME_LENGTH))}</bdi></h1>",
        f"<p class='state' aria-live='polite'>{_state(group)}</p>",
        _problem(rebalance, turn),
        _why(group, turn, incident, mine),
        _drawing(group, turn, drawn, is_file=css is not None),
        _turns(group, turn),
        _members(group, cluster),
        _actions(group) if cluster.can_act else "",
    ]
    body = "".join(parts)
    if css is not None:  # a file has nowhere to lead to
        body = _LINK.sub("", body)
    return _frame(cluster, shortened(group.name, _NAME_LENGTH), body, css=css)


def group_picture(group: GroupNow) -> Picture:
    """All of a group, with whoever is responsible for what `group_text` says first."""
    return _picture(group, None, _worst(group.incidents))


def group_text(group: GroupNow, *, rebalance: int | None = None, at_ms: int | None = None) -> str:
    """What the first screen of a group says, to paste into a ticket."""
    turn = _chosen(group, rebalance, at_ms)
    incident = _worst([each for each in group.incidents if turn is None or _explains(each, turn)])
    lines = [f"Group {group.name} is {group.state}, {time_text(group.now_ms)}"]
    if incident is not None:
        lines.append(
            f"{incident['cause']} ({incident['confidence']:.0%}, {incident['basis']}), {time_text(incident['from_ms'])}"
        )
        lines.append(incident["sentence"])
        lines += [f"What to change: {incident['advice']}"] if incident["advice"] else []
    lines += [each.explanation for each in ([turn] if turn is not None else group.turns[-3:])]
    return "\n".join(map(escaped, lines))


def message_page(cluster: Site, title: str, message: str) -> str:
    """A page that can say only one sentence, such as that there is no such group."""
    body = f"<h1>{text(shortened(title, _NAME_LENGTH))}</h1><p class='problem'>{text(message)}</p><p><a href='{PATH}'>Show all groups</a></p>"
    return _frame(cluster, shortened(title, _NAME_LENGTH), body)


# Parts


def _frame(cluster: Site, title: str, body: str, *, search: str = "", css: str | None = None) -> str:
    problem = f"<p class='problem'>{text(cluster.problem)}</p>" if cluster.problem else ""
    if css is not None:
        links, top = f"<style>\n{css}\n</style>", ""
    else:
        links = f"<link rel='stylesheet' href='{STYLE}'><script src='{SCRIPT}' defer></script><link rel='icon' href='data:,'>"
        top = (
            f"<header><nav aria-label='Pages'><a href='{PATH}'><b>kshim</b> groups</a></nav>"
            f"<p id='now'><span>Now</span> {time_element(cluster.now_ms)}</p>"
            f"<form role='search' action='{PATH}'><label for='q'>Search groups</label> "
            f"<input id='q' name='q' type='search' value='{escape(escaped(search))}' autocomplete='off'></form>"
            "<button id='zone' type='button' hidden aria-pressed='false'>Local time</button></header>"
            "<div id='lost' role='alert'></div>"
        )
    stream = ""
    if cluster.stream is not None and css is None:
        stream = f" data-stream='{escape(cluster.stream)}' data-types='{' '.join(EVENT_TYPES)}'"
    read = (
        f"<footer><p>{text(cluster.title)}. Read at {time_element(cluster.now_ms)}<span id='live'></span>.</p></footer>"
    )
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n<meta name='viewport' content='width=device-width'>\n"
        f"<title>{escape(title)} - kshim</title>\n{links}\n</head>\n<body>\n{top}\n<main id='main' tabindex='-1'{stream}>{problem}{body}</main>\n"
        f"{read}\n<div id='said' role='status' aria-live='polite'></div>\n</body>\n</html>\n"
    )


def _group_row(row: GroupRow, now_ms: int) -> str:
    return _row_html(row, "" if row.since_ms is None else _ago(now_ms - row.since_ms))


@lru_cache(maxsize=2 * ROWS_SHOWN)
def _row_html(row: GroupRow, ago: str) -> str:
    """Most rows are those of the reading before."""
    since = "-" if row.since_ms is None else f"{time_element(row.since_ms)} <small>{ago}</small>"
    who = f"<b>{text(shortened(row.who, _NAME_LENGTH))}</b><br>" if row.who else ""
    return (
        f"<tr id='{_element_id('g', row.name)}'><th scope='row'><a href='{address(row.name)}' title='{_attribute(row.name)}'><bdi>"
        f"{text(shortened(row.name, _NAME_LENGTH))}</bdi></a></th><td>{_chip(row.state, row.is_rebalancing)}</td>"
        f"<td class='n'>{_number(row.member_count)}</td><td class='n'>{row.rebalance_count}</td><td class='n'>{_number(row.lag)}</td>"
        f"<td class='t'>{since}</td><td>{who}{text(shortened(row.what or '-', 160))}</td></tr>"
    )


def _state(group: GroupNow) -> str:
    open_turn = next((turn for turn in reversed(group.turns) if turn.is_open), None)
    parts = [_chip(group.state, group.state in _DISTURBED)]
    if open_turn is not None:
        parts.append(f"rebalancing since {time_element(open_turn.began_ms)}")
    parts.append(counted(len(group.members), "member"))
    if group.generation is not None:
        parts.append(f"generation {group.generation}")
    if group.protocol:
        parts.append(text(shortened(group.protocol, 40)))
    parts.append(counted(len(group.turns) + group.turns_omitted, "rebalance"))
    parts.append("lag unknown" if group.lag is None else f"lag {group.lag:,}")
    return " · ".join(parts)


def _problem(rebalance: int | None, turn: Turn | None) -> str:
    if rebalance is None or turn is not None:
        return ""
    return f"<p class='problem'>Rebalance {rebalance} is not known, or no longer: here is all of the group.</p>"


def _why(
    group: GroupNow, turn: Turn | None, incident: Mapping[str, Any] | None, mine: Sequence[Mapping[str, Any]]
) -> str:
    parts = []
    if turn is not None:
        parts.append(
            f"<section id='turn'><h2>{_took(turn, group.now_ms)}</h2><p>Rebalance {turn.number}, {_since(turn)}</p>"
            f"<p class='what'>{text(turn.explanation)}</p><p>{_phases(turn)}</p>"
            f"<p><a href='{address(group.name)}'>All rebalances</a></p></section>"
        )
    if incident is not None:
        parts.append(incident_section(incident, "why"))
        others = [each for each in mine if each is not incident][::-1]
        if others:
            rows = "".join(
                f"<li>{time_element(each['from_ms'])} <b>{text(each['cause'])}</b> ({each['confidence']:.0%}): {text(each['sentence'])}</li>"
                for each in others[:10]
            )
            more = f"<p>and {len(others) - 10} older ones</p>" if len(others) > 10 else ""
            newest = text(f"{others[0]['cause']} {culprit(others[0])}".strip())
            count = f"{counted(len(others), 'other incident')}{', the last one' if len(others) > 1 else ''}"
            parts.append(
                f"<details id='others'><summary>{count}: {newest}, {time_element(others[0]['from_ms'])}</summary>"
                f"<ul>{rows}</ul>{more}</details>"
            )
    elif turn is None:
        parts.append(
            "<section id='why'><p class='none'>Nothing has disturbed this group, as far as is known.</p></section>"
        )
    else:
        parts.append(
            "<section id='why'><p class='none'>It follows from another rebalance, or nothing is known of its cause.</p></section>"
        )
    return f"<div class='answer' tabindex='-1'>{''.join(parts)}</div>"


def _took(turn: Turn, now_ms: int) -> str:
    if turn.is_open:
        return f"The rebalance has taken {span_text(now_ms - turn.began_ms)}, and goes on"
    return (
        f"Rebalance {turn.number}"
        if turn.ended_ms is None
        else f"The rebalance took {span_text(turn.ended_ms - turn.began_ms)}"
    )


def _since(turn: Turn) -> str:
    ended = "" if turn.ended_ms is None else f" to {time_element(turn.ended_ms)}"
    return f"{time_element(turn.began_ms)}{ended}"


def _drawing(group: GroupNow, turn: Turn | None, drawn: Picture, *, is_file: bool) -> str:
    if not drawn.members and not drawn.bands:
        return (
            "<section id='lanes'><p class='none'>Nothing to draw: the history has no event of this group.</p></section>"
        )
    title = "What happened" if turn is None else f"Close-up of rebalance {turn.number}"
    number = None if turn is None else turn.number
    tools = (
        ""
        if is_file
        else f"<p class='tools'><button type='button' data-copy='{address(group.name, number, form='text')}'>Copy as text</button> "
        "<button type='button' id='image' hidden>Save as an image</button> "
        f"<a href='{address(group.name, number, form='file')}' download>Save as a file</a></p>"
    )
    return (
        f"<section id='lanes' class='wide' tabindex='0' aria-label='Picture'>{tools}<h2>{title}</h2><p>From {time_element(drawn.from_ms)} to {time_element(drawn.to_ms)}; quiet time "
        "is cut out.</p>"
        f"{svg(drawn, f'Swim lanes of group {group.name}; the table of rebalances says the same in words')}{legend(drawn)}</section>"
    )


def _turns(group: GroupNow, chosen: Turn | None) -> str:
    if not group.turns:
        return ""
    shown = group.turns[-_TURNS_LISTED:][::-1]
    rows = "".join(_turn_row(group, turn, chosen) for turn in shown)
    left_out = len(group.turns) - len(shown) + group.turns_omitted
    more = f"<p>and {counted(left_out, 'older one')}</p>" if left_out else ""
    return (
        "<section id='turns' class='wide' tabindex='0' aria-label='Rebalances'><h2>Rebalances</h2><table><thead><tr><th class='n'>Number</th><th>Began</th><th>Cause</th><th>What</th>"
        f"<th>Phases</th></tr></thead><tbody data-keyed>{rows}</tbody></table>{more}</section>"
    )


def _turn_row(group: GroupNow, turn: Turn, chosen: Turn | None) -> str:
    incident = _worst([each for each in group.incidents if _explains(each, turn)])
    cause = "-"
    if incident is not None:
        who = culprit(incident)
        cause = f"<b>{text(incident['cause'])}</b> {how_sure(incident)}" + (
            f"<br>{text(shortened(who, _NAME_LENGTH))}" if who else ""
        )
    current = " aria-current='true'" if turn is chosen else ""
    return (
        f"<tr id='turn-{turn.number}'{current}><th scope='row' class='n'><a href='{address(group.name, turn.number)}'>{turn.number}</a></th>"
        f"<td class='t'>{time_element(turn.began_ms)}</td><td class='why'>{cause}</td><td>{text(turn.explanation)}</td><td>{_phases(turn)}</td></tr>"
    )


def _phases(turn: Turn) -> str:
    shown = ", ".join(f"{name} {span_text(duration_ms)}" for name, duration_ms in turn.phases)
    late = max((wait for wait in turn.waits if not wait.is_new), key=lambda wait: wait.wait_ms, default=None)
    last = (
        ""
        if late is None or late.wait_ms < 1
        else f"; last to {'revoke' if turn.has_epochs else 'join'}: {text(shortened(late.name, _NAME_LENGTH))} after {span_text(late.wait_ms)}"
    )
    return (shown or "-") + last + ("; still open" if turn.is_open else "")


def _members(group: GroupNow, cluster: Site) -> str:
    if not group.members:
        return "<section id='members'><h2>Members</h2><p class='none'>It has no members now.</p></section>"
    rows = "".join(_member_row(group, member, cluster) for member in group.members[:_MEMBERS_LISTED])
    left_out = len(group.members) - _MEMBERS_LISTED
    more = f"<p>and {left_out} more</p>" if left_out > 0 else ""
    action = "<th></th>" if cluster.can_act else ""
    return (
        "<section id='members' class='wide' tabindex='0' aria-label='Members'><h2>Members</h2><table><thead><tr><th>Client</th><th>Host</th><th>Member id</th><th>Partitions</th>"
        f"{action.replace('<th>', '<th><span class=hidden>Action</span>')}</tr></thead><tbody data-keyed>{rows}</tbody></table>{more}</section>"
    )


def _member_row(group: GroupNow, member: MemberNow, cluster: Site) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, index in member.partitions:
        by_topic.setdefault(topic, []).append(index)
    owned = "; ".join(f"{topic} {ranges(indexes)}" for topic, indexes in by_topic.items())
    button = (
        f"<td><button type='button' hidden data-post='{escape(_group_api(group.name, 'expel'))}' data-body='"
        f"{escape(json.dumps({'member': member.member_id}))}' data-said='{_attribute(f'{member.name} was removed')}'>Expel"
        f"<span class='hidden'> {text(shortened(member.name, _NAME_LENGTH))}</span></button></td>"
        if cluster.can_act
        else ""
    )
    leader = " <small>leader</small>" if member.is_leader else ""
    return (
        f"<tr id='{_element_id('m', member.member_id)}'><th scope='row'><bdi>{text(shortened(member.name, _NAME_LENGTH))}</bdi>{leader}</th>"
        f"<td>{text(shortened(member.host, _NAME_LENGTH))}</td><td>{text(shortened(member.member_id, _NAME_LENGTH))}</td>"
        f"<td>{text(shortened(owned or '-', 200))}</td>{button}</tr>"
    )


def _actions(group: GroupNow) -> str:
    """The buttons: without the script they could do nothing, so it shows them."""
    return (
        "<section id='actions' hidden><h2>Try something</h2><p>These act on the brokers of this page.</p><p class='tools'>"
        f"<button type='button' data-post='{escape(_group_api(group.name, 'rebalance'))}' data-body='{{}}' data-said='A rebalance was begun'>"
        "Begin a rebalance</button> "
        "<button type='button' data-post='/v1/clock/advance' data-body='{&quot;seconds&quot;: 46}' data-said='The clock was moved by 46 s'>"
        "Move the clock by 46 s</button> "
        "<button type='button' data-post='/v1/faults' data-body='"
        f"{escape(json.dumps(_fault(group.name)))}' data-said='The next OffsetCommit of this group will fail'>Fail the next OffsetCommit</button> "
        f"<button type='button' data-delete='/v1/faults' data-said='All faults are over'>Cancel all faults</button></p></section>"
    )


def _fault(group: str) -> dict[str, Any]:
    return {
        "on": "OffsetCommit",
        "match": {"group": group},
        "do": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
        "when": {"times": 1},
    }


# Choosing


def _chosen(group: GroupNow, rebalance: int | None, at_ms: int | None) -> Turn | None:
    if rebalance is not None:
        return next((turn for turn in group.turns if turn.number == rebalance), None)
    if at_ms is None or not group.turns:
        return None
    return min(group.turns, key=lambda turn: (_distance(turn, at_ms), -turn.number))


def _distance(turn: Turn, at_ms: int) -> int:
    if at_ms < turn.began_ms:
        return turn.began_ms - at_ms
    return 0 if turn.ended_ms is None else max(at_ms - turn.ended_ms, 0)


def _explains(incident: Mapping[str, Any], turn: Turn) -> bool:
    """Whether an incident lasted while the rebalance did: what began it has the same time, and ends before it does."""
    return bool(incident["from_ms"] <= (turn.ended_ms or incident["from_ms"]) and turn.began_ms <= incident["to_ms"])


def _worst(incidents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest of those that nobody wanted, else the newest."""
    return max(
        incidents,
        key=lambda each: (each["cause"] not in _CALM, each["cause"] != "unknown", each["to_ms"]),
        default=None,
    )


def _picture(group: GroupNow, turn: Turn | None, incident: Mapping[str, Any] | None) -> Picture:
    culprits = frozenset(incident["clients"]) if incident is not None and culprit(incident) else frozenset()

    def href(number: int) -> str:
        return address(group.name, number)

    if turn is None:
        focus = None if incident is None else (incident["from_ms"], incident["to_ms"])
        return picture(group, href=href, culprits=culprits, focus=focus)
    begin_ms, end_ms = turn.began_ms, group.now_ms if turn.ended_ms is None else turn.ended_ms
    if incident is not None:
        begin_ms, end_ms = min(begin_ms, incident["from_ms"]), max(end_ms, min(incident["to_ms"], group.now_ms))
    margin_ms = max((end_ms - begin_ms) // _CLOSE_UP_SHARE, _LEAST_CLOSE_UP_MS)
    return picture(
        group,
        href=href,
        from_ms=begin_ms - margin_ms,
        to_ms=min(end_ms + margin_ms, group.now_ms),
        chosen=turn.number,
        culprits=culprits,
    )


# Words


def address(group: str, rebalance: int | None = None, *, form: str | None = None) -> str:
    """Where a group is shown, or one of its rebalances, as it stands in an attribute; in another form than a page."""
    query = {"group": group.encode("utf-8", "replace")}
    query |= {} if rebalance is None else {"rebalance": str(rebalance).encode()}
    query |= {} if form is None else {"form": form.encode()}
    return escape(f"{PATH}?{urlencode(query)}")


def ranges(indexes: Iterable[int]) -> str:
    """Numbers of partitions, shortened.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and index == found[-1][1] + 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def _chip(state: str, is_rebalancing: bool) -> str:
    kind = "bad" if is_rebalancing else "good" if state == "Stable" else "idle"
    return f"<b class='chip {kind}'>{text(state)}</b>"


def _ago(duration_ms: int) -> str:
    """Roughly, so that it seldom changes.

    >>> _ago(400), _ago(42_000), _ago(1_200_000), _ago(8_000_000)
    ('just now', 'less than 1 min ago', '20 min ago', '2 h ago')
    """
    minutes = duration_ms // 60_000
    if minutes < 1:
        return "just now" if duration_ms < 5_000 else "less than 1 min ago"
    return (
        f"{minutes} min ago"
        if minutes < 120
        else f"{minutes // 60} h ago"
        if minutes < 2_880
        else f"{minutes // 1_440} d ago"
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _quoted(words: str) -> str:
    return f"\u201c<bdi>{text(shortened(words, _NAME_LENGTH))}</bdi>\u201d"


def _attribute(value: str, most: int = 300) -> str:
    return escape(shortened(value, most))


def _group_api(group: str, operation: str) -> str:
    return f"/v1/groups/{quote(group.encode('utf-8', 'replace'), safe='')}/{operation}"


def _element_id(kind: str, name: str) -> str:
    """Where a row stays the same row when others come and go."""
    return f"{kind}-{blake2s(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"
