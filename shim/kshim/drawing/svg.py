"""A picture as SVG: a text that can stand in HTML. Names in it may be anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from unicodedata import east_asian_width

from kshim.drawing.lanes import Band, Bar, Lane, Mark, Picture
from kshim.drawing.scale import Scale
from kshim.drawing.vocabulary import TROUBLE, BarKind, MarkKind
from kshim.wording import escaped

WIDTH = 1_100
_LEFT = 250
_RIGHT = 130
_PLOT = WIDTH - _LEFT - _RIGHT
_LANE = 20
_HEAD = 22
_AXIS = 34
_LEAST_BAR = 2.5
_NAME_WIDTH = _LEFT - 12
_OWNED_NAME_WIDTH = 118
_OWNER_WIDTH = _NAME_WIDTH - _OWNED_NAME_WIDTH - 8
_NOTE_WIDTH = _RIGHT - 12
_FONT = 12
_TITLE_LENGTH = 300
_BETWEEN_LABELS = 58
_BETWEEN_NUMBERS = 20


def svg(picture: Picture, label: str) -> str:
    """The whole drawing. `label` says to those who do not see it what it shows."""
    scale = _scale(picture)
    top = _HEAD
    rows: list[str] = []
    for title, lanes, omitted in (
        ("Members", picture.members, picture.members_omitted),
        ("Partitions", picture.partitions, picture.partitions_omitted),
    ):
        if not lanes:
            continue
        rows.append(f"<text class='head' x='0' y='{top + 14}'>{title}</text>")
        top += _LANE
        for lane in lanes:
            rows.append(_lane(lane, top, scale, picture))
            top += _LANE
        if omitted:
            rows.append(f"<text x='0' y='{top + 14}'>and {omitted} more in which nothing stands out</text>")
            top += _LANE
    bands = "".join(_bands(picture.bands, scale, top, picture.to_ms))
    return (
        f"<svg class='lanes' viewBox='0 0 {WIDTH} {top + _AXIS}' role='group' aria-label='{_attribute(label)}'>"
        f"{bands}{''.join(rows)}{''.join(_axis(scale, top))}</svg>"
    )


def legend(picture: Picture) -> str:
    """What the bars and marks of a picture mean, as a list in HTML."""
    lanes = (*picture.members, *picture.partitions)
    bars = {bar.kind for lane in lanes for bar in lane.bars}
    marks = {mark.kind for lane in lanes for mark in lane.marks}
    shown = [(_rect(kind, 0, 0, 22, "", 18), kind.words) for kind in BarKind if kind in bars]
    shown += [(_shape(kind, 11, 9, ""), kind.words) for kind in MarkKind if kind in marks]
    if picture.bands:
        shown.append(("<rect class='band' x='3' y='0' width='16' height='18'/>", "a rebalance, with its number"))
    troubles = [bar for lane in lanes for bar in lane.bars if bar.kind in TROUBLE]
    if any(picture.is_aside(bar.from_ms, bar.to_ms) for bar in troubles):
        shown.append((_rect(BarKind.LATE, 0, 0, 22, "", 18, is_aside=True), "paler: of another incident"))
    if any(piece.is_cut for piece in _scale(picture).pieces):
        shown.append(("<rect class='cut' x='3' y='0' width='16' height='18'/>", "quiet time, cut out; how long it was"))
    if any(lane.is_culprit for lane in lanes):
        shown.append(("<text class='flag' x='5' y='14'>⚑</text>", "who is responsible"))
    items = "".join(
        f"<li><svg viewBox='0 0 22 18' aria-hidden='true'>{each}</svg>{words}</li>" for each, words in shown
    )
    return f"<ul class='legend'>{items}</ul>" if items else ""


def clock(at_ms: int, *, is_fine: bool = False) -> str:
    """The time of day in UTC.

    >>> clock(1_000_062_005), clock(1_000_062_005, is_fine=True)
    ('13:47:42', '13:47:42.005')
    """
    minutes, seconds = divmod(at_ms // 1_000 % 86_400, 60)  # `strftime` takes ten times as long, and bars have several
    text = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    return f"{text}.{at_ms % 1_000:03}" if is_fine else text


def span_text(duration_ms: int) -> str:
    """How long, in one unit or two.

    >>> span_text(80), span_text(4_200), span_text(63_000), span_text(7_500_000), span_text(200_000_000)
    ('80 ms', '4.2 s', '1m 03s', '2h 05m', '2d 07h')
    """
    if duration_ms < 1_000:
        return f"{max(duration_ms, 0)} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.1f} s"
    for size, name, part, part_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if (seconds := duration_ms // 1_000) >= size:
            return f"{seconds // size}{name} {seconds % size // part:02}{part_name}"
    raise AssertionError(duration_ms)


def shortened(text: str, most: int) -> str:
    """Any text in one line, with an ellipsis in its middle if it is longer: both ends of a name tell it apart.

    >>> shortened("consumer-billing-7@10.0.0.7", 11), shortened("short", 11)
    ('consu…0.0.7', 'short')
    """
    text = escaped(text[: 4 * most] + text[-4 * most :] if len(text) > 8 * most else text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def fitted(text: str, width: float) -> str:
    """`shortened`, to a width in the units of a picture: as much of a text as fits beside what follows it.

    >>> fitted("orders-0", 60), fitted("consumer-billing-7@10.0.0.7", 80), fitted("WWWWWWWWWW", 60)
    ('orders-0', 'consu…0.0.7', 'WWW…WW')
    """
    short = shortened(text, int(width))
    while len(short) > 1 and (over := _width(short) - width) > 0:
        short = shortened(text, len(short) - max(int(over / _FONT), 1))
    return short


def _width(text: str) -> float:
    """About how wide a text is, rather more than less: fonts differ."""
    return _FONT * sum(
        1.0 if east_asian_width(each) in "WF" else 0.85 if each in "MWmw@%" else 0.66 if each.isupper() else 0.58
        for each in text
    )


def _scale(picture: Picture) -> Scale:
    return Scale(picture.active(), picture.from_ms, picture.to_ms, left=_LEFT, width=_PLOT)


def _bands(bands: Sequence[Band], scale: Scale, height: int, now_ms: int) -> Iterator[str]:
    until = 0.0
    # The chosen one comes last, over its neighbours, and has its number.
    chosen = [scale.x(band.from_ms) for band in bands if band.is_chosen]
    for band in sorted(bands, key=lambda each: (each.is_chosen, each.from_ms)):
        left = scale.x(band.from_ms)
        width = max(scale.x(now_ms if band.to_ms is None else band.to_ms) - left, _LEAST_BAR)
        number = ""
        is_free = left >= until and all(abs(left - each) >= _BETWEEN_NUMBERS for each in chosen)
        if band.is_chosen or is_free:
            number = f"<text x='{left:.1f}' y='12'>{'#' if band.is_chosen else ''}{band.number}</text>"
            until = left + _BETWEEN_NUMBERS
        words = _attribute(band.label)
        element = "a" if band.href else "g"
        link = f" href='{band.href}' aria-label='{words}'" if band.href else ""
        yield (
            f"<{element} class='turn{' chosen' if band.is_chosen else ''}'{link}><rect class='band' "
            f"x='{left:.1f}' y='{_HEAD - 6}' width='{width:.1f}' height='{height - _HEAD + 6}'><title>{words}</title></rect>"
            f"{number}</{element}>"
        )


def _lane(lane: Lane, top: int, scale: Scale, picture: Picture) -> str:
    name = fitted(f"{'⚑ ' if lane.is_culprit else ''}{lane.name}", _OWNED_NAME_WIDTH if lane.owner else _NAME_WIDTH)
    parts = [
        f"<g class='{'culprit' if lane.is_culprit else 'lane'}'>"
        f"<rect class='row' x='0' y='{top}' width='{WIDTH}' height='{_LANE}'/>"
        f"<text class='name' x='0' y='{top + 14}'>{escape(name)}<title>{_attribute(lane.name)}</title></text>"
    ]
    if lane.owner:
        parts.append(
            f"<text class='owner' x='{_LEFT - 12}' y='{top + 14}' text-anchor='end'>{escape(fitted(lane.owner, _OWNER_WIDTH))}"
            f"<title>{_attribute(lane.owner)}</title></text>"
        )
    short_name = shortened(lane.name, 60)
    for bar in lane.bars:
        left = scale.x(bar.from_ms)
        width = max(scale.x(picture.to_ms if bar.to_ms is None else bar.to_ms) - left, _LEAST_BAR)
        is_aside = bar.kind in TROUBLE and picture.is_aside(bar.from_ms, bar.to_ms)
        parts.append(_rect(bar.kind, left, top, width, _bar_text(short_name, bar), is_aside=is_aside))
    for mark in lane.marks:
        is_aside = mark.kind is MarkKind.GONE and picture.is_aside(mark.at_ms, mark.at_ms)
        text = _mark_text(short_name, mark)
        parts.append(_shape(mark.kind, scale.x(mark.at_ms), top + _LANE / 2, text, is_aside=is_aside))
    if lane.note:
        at_ms = lane.note_ms
        time = "" if at_ms is None else f" <tspan data-ms='{at_ms}'>{clock(at_ms)}</tspan>"
        width = _NOTE_WIDTH if at_ms is None else _NOTE_WIDTH - _BETWEEN_LABELS
        parts.append(
            f"<text x='{WIDTH}' y='{top + 14}' text-anchor='end'>{escape(fitted(lane.note, width))}{time}"
            f"<title>{_attribute(lane.note)}</title></text>"
        )
    return "".join(parts) + "</g>"


def _rect(
    kind: BarKind, left: float, top: float, width: float, text: str, lane: int = _LANE, *, is_aside: bool = False
) -> str:
    title = f"<title>{_attribute(text)}</title>" if text else ""
    kinds = f"{kind.keyword} aside" if is_aside else kind.keyword
    return (
        f"<rect class='bar {kinds}' x='{left:.1f}' y='{top + (lane - kind.height) / 2:g}' width='{width:.1f}' "
        f"height='{kind.height}'>{title}</rect>"
    )


def _shape(kind: MarkKind, x: float, y: float, text: str, *, is_aside: bool = False) -> str:
    title = f"<title>{_attribute(text)}</title>" if text else ""
    kinds = f"{kind.keyword} aside" if is_aside else kind.keyword
    return f"<path class='mark {kinds}' d='{kind.path}' transform='translate({x:.1f} {y:g})'>{title}</path>"


def _bar_text(name: str, bar: Bar) -> str:
    until = "now" if bar.to_ms is None else clock(bar.to_ms)
    lasted = "" if bar.to_ms is None else f" ({span_text(bar.to_ms - bar.from_ms)})"
    return f"{name} {bar.text or bar.kind.words}: {clock(bar.from_ms)} to {until} UTC{lasted}"


def _mark_text(name: str, mark: Mark) -> str:
    return f"{name}: {mark.text or mark.kind.words}, {clock(mark.at_ms)} UTC"


def _axis(scale: Scale, top: int) -> Iterable[str]:
    yield f"<line class='axis' x1='{_LEFT}' x2='{_LEFT + _PLOT}' y1='{top}' y2='{top}'/>"
    until = 0.0
    for piece in scale.pieces:
        if piece.is_cut:
            quiet = span_text(piece.to_ms - piece.from_ms)
            yield (
                f"<g><rect class='cut' x='{piece.left:.1f}' y='{_HEAD - 6}' width='{piece.width:.1f}' height='{top - _HEAD + 6}'>"
                f"<title>Nothing happened for {quiet}; this time is cut out</title></rect>"
                f"<text x='{piece.left + piece.width / 2:.1f}' y='{top + 28}' text-anchor='middle'>{quiet.split(' ')[0] if piece.width < 40 else quiet}</text></g>"
            )
            continue
        is_fine = piece.to_ms - piece.from_ms < 2_000
        if piece.left >= until:
            yield (
                f"<text x='{piece.left:.1f}' y='{top + 14}' data-ms='{piece.from_ms}'>{clock(piece.from_ms, is_fine=is_fine)}</text>"
            )
            until = piece.left + _BETWEEN_LABELS + 24 * is_fine
        right = piece.left + piece.width
        if right - _BETWEEN_LABELS - 24 * is_fine >= until:
            yield (
                f"<text x='{right:.1f}' y='{top + 14}' text-anchor='end' data-ms='{piece.to_ms}'>{clock(piece.to_ms, is_fine=is_fine)}</text>"
            )
            until = right


def _attribute(text: str) -> str:
    return escape(shortened(text, _TITLE_LENGTH))
