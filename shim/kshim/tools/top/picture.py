"""A look as lines of text: a table of groups, and the sentences of the last incidents."""

from __future__ import annotations

from collections.abc import Sequence

from kshim.explain.words import sentence, time_text
from kshim.tools.screen import Line, Span, fit
from kshim.tools.top.watch import Row, View
from kshim.wording import columns, counted, escaped

_INCIDENTS_SHOWN = 5
_CELL_MAX = 40
_CELL_MAX_OF_A_FILE = 100
_HEADS = ("GROUP", "STATE", "FOR", "MEMBERS", "GEN", "REBAL", "LAG", "LAST CAUSE", "WHO")
_IS_NUMBER = (False, False, True, True, True, True, True, False, False)
_COLOURS = {"Stable": "green", "Empty": "dim", "Dead": "dim"}


def draw(view: View, source: str, *, room: int | None = None, problem: str | None = None) -> list[Line]:
    """The whole picture, in at most `room` lines if that is given: groups are left out at the end, then old incidents."""
    head = f"   {source}   {time_text(view.ts_ms)}   {counted(len(view.rows), 'group')}"
    head += f", {counted(sum(row.is_rebalancing for row in view.rows), 'rebalance')} running"
    lines: list[Line] = [[Span("kshim top", "bold"), Span(head, "dim")]]
    if problem is not None:
        lines.append([Span(problem, "red")])
    incidents = _incidents(view, _INCIDENTS_SHOWN if room is None else max(min(_INCIDENTS_SHOWN, room // 4), 1))
    rows = view.rows
    if room is not None:
        rows = rows[: max(room - len(lines) - len(incidents) - 3, 1)]
    cells = [_cells(row, view.ts_ms) for row in rows]
    most = _CELL_MAX_OF_A_FILE if room is None else _CELL_MAX
    widths = [
        max([len(name), *(min(columns(escaped(row[place])), most) for row in cells)])
        for place, name in enumerate(_HEADS)
    ]
    lines += [[], [Span(_joined(_HEADS, widths), "bold")]]
    lines += [_line(row, cell, widths) for row, cell in zip(rows, cells, strict=True)]
    left_out = len(view.rows) - len(rows) + view.left_out_count
    if left_out:
        lines.append([Span(f"and {counted(left_out, 'group')} more", "dim")])
    return lines + incidents


def _incidents(view: View, most: int) -> list[Line]:
    lines: list[Line] = []
    for incident in view.incidents[-most:][::-1]:
        when = Span(f"{time_text(incident.from_ms)}  ", "dim")
        what = Span(f"{', '.join(incident.groups)}: {incident.cause} ({incident.confidence:.0%})  ", "bold")
        lines.append([when, what, Span(sentence(incident))])
    return [[], [Span("LAST INCIDENTS", "bold")], *lines] if lines else []


def _line(row: Row, cells: Sequence[str], widths: Sequence[int]) -> Line:
    """One line, with the state in its colour."""
    before, state, after = cells[:1], cells[1:2], cells[2:]
    colour = "yellow" if row.is_rebalancing else _COLOURS.get(row.state, "")
    return [
        Span(_joined(before, widths[:1]) + "  "),
        Span(_joined(state, widths[1:2]) + "  ", colour),
        Span(_joined(after, widths[2:], _IS_NUMBER[2:])),
    ]


def _joined(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool] = _IS_NUMBER) -> str:
    return "  ".join(
        cell.rjust(width) if right else fit(cell, width)
        for cell, width, right in zip(cells, widths, is_number, strict=False)
    )


def _cells(row: Row, now_ms: int) -> tuple[str, ...]:
    cause = row.last_cause
    return (
        row.group,
        row.state,
        "-" if row.unstable_ms is None else duration(row.unstable_ms),
        "-" if row.member_count is None else str(row.member_count),
        "-" if row.generation is None else str(row.generation),
        str(row.rebalance_count),
        _lag(row),
        "-"
        if cause is None
        else f"{cause.cause}{'?' if cause.is_guess else ''} {cause.confidence:.0%}, {duration(now_ms - cause.at_ms)} ago",
        who(row),
    )


def _lag(row: Row) -> str:
    if row.lag is None:
        return "-"
    return f"{row.lag} ({row.lag_change:+})" if row.lag_change else str(row.lag)


def who(row: Row) -> str:
    """Whom a rebalance is about."""
    parts = []
    if row.missing:
        parts.append(f"{'waits for' if row.group_type == 'consumer' else 'without'} {_named(row.missing)}")
    if row.joined:
        parts.append(f"new: {_named(row.joined)}")
    if not parts and row.last_to_join is not None:
        parts.append(f"last: {row.last_to_join}")
    return "; ".join(parts) or "-"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def duration(span_ms: int) -> str:
    """Short, in the largest two units.

    >>> duration(4_200), duration(63_000), duration(7_500_000), duration(200_000_000)
    ('4s', '1m03s', '2h05m', '2d07h')
    """
    span_s = max(span_ms, 0) // 1_000
    for unit, size, below, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if span_s >= size:
            return f"{span_s // size}{unit}{span_s % size // part:02}{below}"
    return f"{span_s}s"
