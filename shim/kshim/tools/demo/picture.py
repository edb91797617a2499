"""The demo's picture: lines of coloured text made of a `Story`. Pure; `screen.py` writes them."""

from __future__ import annotations

from collections.abc import Iterable

from kshim.tools.demo.story import Member, Story
from kshim.tools.screen import Line, Span
from kshim.wording import counted

COLUMN_MS = 500
MEMBER_COLOURS = ("green", "yellow", "cyan", "magenta")


def draw(story: Story, now_ms: int, *, bootstrap: str, topic: str, session_timeout_ms: int, end_ms: int) -> list[Line]:
    """The whole picture at `now_ms` of the story, of which `end_ms` is the planned length."""
    colours = {name: MEMBER_COLOURS[at % len(MEMBER_COLOURS)] for at, name in enumerate(story.members)}
    header = f"   broker {bootstrap}   topic {topic}   group {story.group}   {now_ms / 1000:5.1f} s"
    lines: list[Line] = [[Span("kshim demo", "bold"), Span(header, "dim")], []]
    state = f"generation {story.generation}, {story.group_state}"
    is_calm = story.group_state in ("Stable", "Empty")
    lines.append([Span("MEMBERS", "bold"), Span("      "), Span(state, "dim" if is_calm else "yellow")])
    for member in story.members.values():
        lines.append(_member_line(member, colours[member.name], now_ms, session_timeout_ms))
    lines += [[], [Span("PARTITIONS", "bold"), Span("   reader of each partition; a column is half a second", "dim")]]
    for partition in range(story.partition_count):
        lines.append(_strip(story, partition, now_ms, end_ms, colours))
    lines += [[], [Span("REBALANCES", "bold")]]
    lines += _rebalance_lines(story, now_ms, colours)
    if story.notes:
        note = story.notes[-1]
        lines += [[], [Span(f"{note.at_ms / 1000:5.1f} s  ", "dim"), Span(note.who, "bold"), Span(f" {note.text}")]]
    return lines


def _member_line(member: Member, colour: str, now_ms: int, session_timeout_ms: int) -> Line:
    state_colour = {"reading": "green", "crashed": "red", "left": "dim"}.get(member.state, "yellow")
    partitions = " ".join(map(str, member.partitions)) or "-"
    line = [
        Span("  "),
        Span(f" {member.name[:1]} ", "on " + colour),
        Span(f" {member.name:<7}", "bold"),
        Span(f"{member.state:<10}", state_colour),
        Span(f"owns {partitions:<13}", "dim" if not member.partitions else ""),
        Span(f"{member.record_count:5} records"),
    ]
    silent_ms = now_ms - member.state_since_ms
    if member.state == "crashed" and member.partitions:
        left_s = max(0, session_timeout_ms - silent_ms) / 1000
        line.append(Span(f"   still owner for {left_s:.0f} s" if left_s else "   session expired", "red"))
    return line


def _strip(story: Story, partition: int, now_ms: int, end_ms: int, colours: dict[str, str]) -> Line:
    """One partition through time: a letter of its reader a column, `x` while the reader is dead, `.` with none."""
    line = [Span(f"   {partition}   ")]
    for name, text in _runs(story, partition, now_ms):
        if not name:
            line.append(Span(text, "dim"))
        elif name.startswith("!"):
            line.append(Span(text, "on red"))
        else:
            line.append(Span(text, "on " + colours[name]))
    columns_left = max(0, (end_ms - now_ms) // COLUMN_MS)
    line.append(Span(" " * columns_left))
    return line


def _runs(story: Story, partition: int, now_ms: int) -> Iterable[tuple[str, str]]:
    run_name, run_text = "", ""
    for at_ms in range(0, max(now_ms, 0) + 1, COLUMN_MS):
        name = story.reader_at(partition, at_ms)
        letter = "x" if name.startswith("!") else name[:1] or "."
        if name != run_name and run_text:
            yield run_name, run_text
            run_text = ""
        run_name = name
        run_text += letter
    yield run_name, run_text


def _rebalance_lines(story: Story, now_ms: int, colours: dict[str, str]) -> list[Line]:
    lines: list[Line] = [[Span("  at        took    generation   why", "dim")]]
    for rebalance in story.rebalances:
        is_running = rebalance.ended_ms is None
        took_ms = (now_ms if rebalance.ended_ms is None else rebalance.ended_ms) - rebalance.started_ms
        generation = "..." if rebalance.generation is None else str(rebalance.generation)
        before, who, after = rebalance.reason.partition(rebalance.who)
        lines.append(
            [
                Span(f"  {rebalance.started_ms / 1000:4.1f} s   "),
                Span(f"{took_ms / 1000:5.2f} s   {generation:>10}   ", "yellow" if is_running else ""),
                Span(before),
                Span(who, colours.get(rebalance.who, "bold")),
                Span(after),
            ]
        )
    return lines


def summary(story: Story, now_ms: int, session_timeout_ms: int) -> list[Line]:
    """The summary at the end."""
    count = len(story.rebalances)
    texts = [f"{counted(count, 'rebalance')} in {now_ms / 1000:.0f} s, and the broker recorded the cause of each."]
    for member in story.members.values():
        gaps = [gap.ended_ms - gap.started_ms for gap in story.gaps if gap.last_reader == member.name]
        if member.state == "crashed" and gaps:
            texts += [
                f"{member.name} crashed: its partitions had no reader for {max(gaps) / 1000:.1f} s, because only the",
                f"  end of its session (session.timeout.ms={session_timeout_ms}) informed the broker.",
            ]
        elif member.state in ("leaving", "left") and gaps:
            texts.append(f"{member.name} left cleanly: its partitions had a new reader after {gaps[-1] / 1000:.1f} s.")
    read_once = story.read_count - story.repeated_count
    texts.append(f"{story.produced_count} records were written, {read_once} read, {story.repeated_count} of them twice")
    texts.append("  (twice: read but not yet committed when their reader ended).")
    return [[Span("SUMMARY", "bold")], *([Span(f"  {text}")] for text in texts)]
