"""The page docs/diagnosis-scores.md, from the scores of some runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from integration.spark.scoring import MISSED, Run, Score

_LEVELS: Final = {
    "events": "kshim's events (`__kshim_events`) and `__consumer_offsets`",
    "log": "a real Kafka's `__consumer_offsets` and its log file",
    "records": "the same Kafka's `__consumer_offsets` alone",
}

_INTRODUCTION: Final = """\
# How often the diagnosis is right

Written by `{command} --write docs/diagnosis-scores.md`. Incidents of known cause are played on brokers by
`kshim.tools.incidents`; what was done, why and by whom goes to a file that no input carries and that is opened when all
is diagnosed. A finding counts for one truth at most, and a truth for one finding: those of the same cause and in the
same group first, then by how long they overlap. `cause` is right when it is the same root cause, `member` when exactly
those are blamed who did it: the client, all the clients, the host, or the group when all of it was deployed or started.
Recall is of the truths, precision of the findings.

The rules were developed on seeds below 1000. The seeds below were run to score them, not to change them.
"""


def page(runs: Sequence[Run], *, command: str) -> str:
    """The whole page."""
    lines = [_INTRODUCTION.format(command=command)]
    lines += ["| Input | Incidents | Findings | Cause: recall | precision | Member: recall | precision |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for run in runs:
        for level, of in run.scores.items():
            figures = " | ".join(f"{figure:.1%}" for figure in of.figures)
            lines.append(f"| {_LEVELS[level]} | {of.truths} | {of.found} | {figures} |")
    lines.append("")
    for run in runs:
        played = run.played
        lines.append(
            f"- {run.broker}: seed {run.seed}, {run.service_count} services, {played.incident_count} incidents in "
            f"{played.seconds:.0f} s; {played.failed_count} did not end. The player was late by {played.latest_s:.2f} s at "
            f"most, the slowest answer of the broker took {played.slowest_answer_s:.2f} s. By accident "
            f"{played.accident_count} members were expelled. What came near to that, or fell into a time when the player "
            f"was late by more than 0.3 s, is left out: {played.incident_count - _scored(run)} incidents, "
            f"{_left_out(run)} findings."
        )
    for run in runs:
        for level, of in run.scores.items():
            lines += ["", f"## From {_LEVELS[level]}", "", *_by_cause(of), "", *_confusions(of)]
    return "\n".join(lines) + "\n"


def _scored(run: Run) -> int:
    return min(of.truths for of in run.scores.values())


def _left_out(run: Run) -> int:
    return max((of.left_out for of in run.scores.values()), default=0)


def _by_cause(of: Score) -> Iterable[str]:
    yield "| Cause | Truths | Recall | Findings | Precision | Member right |"
    yield "|---|---:|---:|---:|---:|---:|"
    for cause, counts in of.by_cause.items():
        recall = f"{counts.right / counts.truths:.0%}" if counts.truths else "-"
        precision = f"{counts.right / counts.found:.0%}" if counts.found else "-"
        member = f"{counts.members_right / counts.truths:.0%}" if counts.truths else "-"
        yield f"| {cause} | {counts.truths} | {recall} | {counts.found} | {precision} | {member} |"


def _confusions(of: Score) -> Iterable[str]:
    wrong = sorted(
        ((count, true, named) for (true, named), count in of.confusions.items() if true != named), reverse=True
    )
    if not wrong:
        yield "Nothing was mistaken for something else."
        return
    yield "| What it was | What it was taken for | Times |"
    yield "|---|---|---:|"
    for count, true, named in wrong:
        yield f"| {true} | {named} | {count} |"
    if any(MISSED in (true, named) for _, true, named in wrong):
        yield ""
        yield f"`{MISSED}`: there was no finding for it, or nothing had happened that a finding speaks of."
