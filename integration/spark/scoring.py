"""How right a diagnosis was: truths and findings paired by group and time, each at most once, and counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from integration.incidents.play import Plan, Played
from integration.incidents.truth import Accident, Play, SubjectKind, Truth

SLACK_MS = 500
"""In real time: clocks of one machine, and a group that becomes stable a little after its script ends."""

_SPOILED = 10
"""For so many times as long before and after it an accident spoils what happens in its group."""

MISSED = "(nothing)"
"""In the table of confusions: no finding for this truth, or no truth for this finding."""


class Found(NamedTuple):
    """An incident as it was diagnosed."""

    groups: frozenset[str]
    from_ms: int
    to_ms: int
    cause: str
    subject: str
    clients: frozenset[str]
    host: str | None


class CauseScore(NamedTuple):
    """Of one cause: how many there were, were found, and how many of each were right, by cause and by member.

    Precision is of the findings that named this cause. `members_*` count where there is one culprit or one host.
    """

    truths: int
    found: int
    right: int
    members_right: int


class Score(NamedTuple):
    """`confusions` counts (true cause, named cause). `left_out` are truths and findings that an accident spoiled."""

    by_cause: Mapping[str, CauseScore]
    truths: int
    found: int
    right: int
    members_right: int
    confusions: Mapping[tuple[str, str], int]
    left_out: int

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """Recall and precision of cause, then of member, 0 to 1."""
        truths, found = max(self.truths, 1), max(self.found, 1)
        return self.right / truths, self.right / found, self.members_right / truths, self.members_right / found


class Run(NamedTuple):
    """A play and what came of it. `scores`: of `events`, `log` or `records`, whatever was read."""

    broker: str
    plan: Plan
    played: Played
    scores: Mapping[str, Score]


def found_of(row: Mapping[str, Any]) -> Found:
    """A row of the table INCIDENTS."""
    return Found(
        frozenset(row["groups"]),
        row["from_ms"],
        row["to_ms"],
        row["cause"],
        row["subject"],
        frozenset(row["clients"]),
        row["host"],
    )


def score(play: Play, found: Sequence[Found], *, slack_ms: int = SLACK_MS) -> Score:
    """Pair and count. What begins after the play's end is only its processes ending. `slack_ms` is in the play's time.

    Who finds what began a rebalance besides what made it slow has not found anything wrong, and who does not, misses nothing.
    """
    end_ms = play.end_ms if play.end_ms is not None else max((truth.end_ms for truth in play.truths), default=0)
    counted = [finding for finding in found if finding.from_ms < end_ms and not _is_trigger(finding, play, slack_ms)]
    truths, findings = _unspoiled(play, counted, slack_ms)
    left_out = len(counted) - len(findings)
    pairs = _pairs(truths, findings, slack_ms)
    confusions: Counter[tuple[str, str]] = Counter()
    right: Counter[str] = Counter()
    members_right: Counter[str] = Counter()
    for i, truth in enumerate(truths):
        finding = findings[pairs[i]] if i in pairs else None
        confusions[truth.cause.value, finding.cause if finding else MISSED] += 1
        if finding is not None:
            right[truth.cause.value] += finding.cause == truth.cause.value
            members_right[truth.cause.value] += _names_the_member(truth, finding)
    for i in set(range(len(findings))) - set(pairs.values()):
        confusions[MISSED, findings[i].cause] += 1
    return _score(truths, findings, right, members_right, confusions, left_out)


def _score(
    truths: Sequence[Truth],
    findings: Sequence[Found],
    right: Counter[str],
    members_right: Counter[str],
    confusions: Counter[tuple[str, str]],
    left_out: int,
) -> Score:
    there_were = Counter(truth.cause.value for truth in truths)
    named = Counter(finding.cause for finding in findings)
    return Score(
        {
            cause: CauseScore(there_were[cause], named[cause], right[cause], members_right[cause])
            for cause in sorted(there_were | named)
        },
        len(truths),
        len(findings),
        right.total(),
        members_right.total(),
        confusions,
        left_out,
    )


def _is_trigger(finding: Found, play: Play, slack_ms: int) -> bool:
    return any(
        finding.cause == trigger.cause.value
        and finding.groups <= frozenset(trigger.groups)
        and finding.from_ms <= trigger.end_ms + slack_ms
        and finding.to_ms >= trigger.start_ms - slack_ms
        for trigger in play.triggers
    )


def _pairs(truths: Sequence[Truth], findings: Sequence[Found], slack_ms: int) -> dict[int, int]:
    """Index of a truth to that of its finding: those of the same cause first, then by how long they overlap.

    Of several findings about one truth one counts as found, and all others as wrong.
    """
    of_group: defaultdict[str, list[int]] = defaultdict(list)
    for i, finding in enumerate(findings):
        for group in finding.groups:
            of_group[group].append(i)
    candidates: list[tuple[bool, int, int, int]] = []
    for i, truth in enumerate(truths):
        for j in {j for group in truth.groups for j in of_group[group]}:
            finding = findings[j]
            overlap_ms = _overlap_ms(truth, finding, slack_ms)
            if overlap_ms >= 0:
                candidates.append((finding.cause == truth.cause.value, overlap_ms, i, j))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, i, j in sorted(candidates, key=lambda candidate: (not candidate[0], -candidate[1], *candidate[2:])):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    return pairs


def _overlap_ms(truth: Truth, finding: Found, slack_ms: int) -> int:
    """For how long the two overlap; negative: they do not, or are of different groups."""
    if finding.groups.isdisjoint(truth.groups):
        return -1
    return min(finding.to_ms, truth.end_ms + slack_ms) - max(finding.from_ms, truth.start_ms - slack_ms)


def _names_the_member(truth: Truth, finding: Found) -> bool:
    """Whether the finding blames exactly those who did it. For what concerns a whole group, that is the group."""
    match truth.subject.kind:
        case SubjectKind.CLIENT | SubjectKind.CLIENTS:
            return finding.clients == frozenset(truth.subject.clients)
        case SubjectKind.HOST:
            return finding.subject == "host" and finding.host == truth.subject.host
        case SubjectKind.GROUP:
            return finding.subject == "group" and finding.groups == frozenset(truth.groups)


def _unspoiled(play: Play, findings: Sequence[Found], slack_ms: int) -> tuple[list[Truth], list[Found]]:
    """What no accident touched. Where it touched only one of a truth and its finding, both are left out.

    So is what else was found of a truth that is left out, at its time in its groups: nobody can say whether it is right.
    """
    spoiled_truths = {
        i
        for i, of in enumerate(play.truths)
        if _is_spoiled(frozenset(of.groups), of.start_ms, of.end_ms, play, slack_ms)
    }
    spoiled_findings = {
        j for j, of in enumerate(findings) if _is_spoiled(of.groups, of.from_ms, of.to_ms, play, slack_ms)
    }
    pairs = _pairs(play.truths, findings, slack_ms)
    for i, j in pairs.items():
        if i in spoiled_truths or j in spoiled_findings:
            spoiled_truths.add(i)
            spoiled_findings.add(j)
    left_out = [play.truths[i] for i in spoiled_truths]
    for j in set(range(len(findings))) - set(pairs.values()):
        if any(_overlap_ms(truth, findings[j], slack_ms) >= 0 for truth in left_out):
            spoiled_findings.add(j)
    return (
        [truth for i, truth in enumerate(play.truths) if i not in spoiled_truths],
        [finding for j, finding in enumerate(findings) if j not in spoiled_findings],
    )


def _is_spoiled(groups: frozenset[str], from_ms: int, to_ms: int, play: Play, slack_ms: int) -> bool:
    """Whether the player was late at that time, which removed members or slowed all of them."""
    is_late = any(late.from_ms <= to_ms + slack_ms and late.to_ms >= from_ms - slack_ms for late in play.late)
    around_ms = _SPOILED * slack_ms
    return is_late or any(
        _concerns(accident, groups, from_ms - around_ms, to_ms + around_ms) for accident in play.accidents
    )


def _concerns(accident: Accident, groups: frozenset[str], from_ms: int, to_ms: int) -> bool:
    return accident.group_id in groups and from_ms <= accident.at_ms <= to_ms
