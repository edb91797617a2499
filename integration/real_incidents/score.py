"""How often `kshim why` is right: `python -m integration.real_incidents.score FOLDER...` against what was played there.

Every truth and every finding counts, except findings of no truth that were noticed when the play was over: its processes end. A finding is of
the truth with which it shares a group and time, at most one each: those of the same cause first, then of the same culprit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from integration.incidents.truth import SubjectKind, Truth, read_truth

SAMPLED = "sampled.zip"
"""What `kshim why --follow` has recorded of a play, in its folder."""

_SLACK_MS = 15_000
"""A truth ends when the group is stable again, or when the process is; a finding begins with the last request before it."""

Finding = dict[str, Any]


class Match(NamedTuple):
    """A truth and the finding for it; one may be missing."""

    truth: Truth | None
    finding: Finding | None

    @property
    def is_cause_right(self) -> bool:
        """Whether both name the same cause."""
        return self.truth is not None and self.finding is not None and _cause(self, "truth") == _cause(self, "finding")

    @property
    def is_culprit_right(self) -> bool:
        """Whether the finding names whom the truth does, whatever the cause."""
        if self.truth is None or self.finding is None:
            return False
        subject = self.truth.subject
        match subject.kind:
            case SubjectKind.GROUP:
                return set(self.truth.groups) == set(self.finding["groups"])
            case SubjectKind.HOST:
                return bool(subject.host == self.finding["host"])
            case _:
                return set(subject.clients) == set(self.finding["clients"])


SOURCES = ("events", "log", "samples", "records")
"""What the diagnosis may read: everything, which is events on kshim and the log on Kafka; no events; records and, of Kafka, samples; records alone."""


def findings(folder: Path, source: str = "events") -> list[Finding]:
    """What `kshim why` says of the data and, where it has no events or may not read them, the log in a folder of the player."""
    if source == "samples":
        return _said("--recorded", str(folder / SAMPLED))
    logs = sorted(folder.glob("kafka.log"))  # of a real Kafka
    if source == "log":
        logs += sorted(folder.glob("kshim.log"))
    with TemporaryDirectory() as data:
        for each in (folder / "data").iterdir():
            if source == "events" or not each.name.startswith("__kshim_events-"):
                (Path(data) / each.name).symlink_to(each.resolve())
        read = [word for log in logs if source != "records" for word in ("--broker-log", str(log))]
        return _said("--data-dir", data, *read)


def _said(*source: str) -> list[Finding]:
    command = [sys.executable, "-m", "kshim", "why", "--all", *source, "--output", "json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[Finding] = json.loads(answer.stdout)["incidents"]
    return found


def matches(truths: Sequence[Truth], found: Sequence[Finding]) -> list[Match]:
    """Each truth and each finding once, alone where nothing fits."""
    pairs = [
        (Match(truth, finding), (place, number))
        for place, truth in enumerate(truths)
        for number, finding in enumerate(found)
        if _overlap(truth, finding)
    ]
    pairs.sort(key=lambda pair: (-pair[0].is_cause_right, -pair[0].is_culprit_right, _distance(pair[0])))
    used_truths: set[int] = set()
    used_findings: set[int] = set()
    result: list[Match] = []
    for match, (place, number) in pairs:
        if place not in used_truths and number not in used_findings:
            result.append(match)
            used_truths.add(place)
            used_findings.add(number)
    result += [Match(truth, None) for place, truth in enumerate(truths) if place not in used_truths]
    result += [Match(None, finding) for number, finding in enumerate(found) if number not in used_findings]
    return result


def _overlap(truth: Truth, finding: Finding) -> bool:
    begin_ms, end_ms = int(finding["from_ms"]), int(finding["to_ms"])
    is_there = bool(set(truth.groups) & set(finding["groups"]))
    return is_there and begin_ms <= truth.end_ms + _SLACK_MS and end_ms >= truth.start_ms - _SLACK_MS


def _distance(match: Match) -> int:
    assert match.truth is not None
    assert match.finding is not None
    return abs(match.truth.start_ms - int(match.finding["from_ms"]))


def report(all_: Sequence[Match]) -> Iterator[str]:
    """Counts, confusions, reliability, and each miss."""
    truths = [match for match in all_ if match.truth is not None]
    found = [match for match in all_ if match.finding is not None]
    right = [match for match in all_ if match.is_cause_right]
    culprits = [match for match in truths if match.is_culprit_right]
    both = [match for match in right if match.is_culprit_right]
    yield f"causes found:     {_share(len(right), len(truths))} of what was done"
    yield f"culprits right:   {_share(len(culprits), len(truths))} of what was done"
    yield f"findings right:   {_share(len(right), len(found))} by cause, {_share(len(both), len(found))} by cause and culprit"
    unknown = sum(match.finding["cause"] == "unknown" for match in found if match.finding)
    yield f"unknown:          {unknown} findings, and wrong: {_share(len(found) - len(right) - unknown, len(found))}"
    yield "confidence:"
    for low in (0.0, 0.5, 0.7, 0.8, 0.9, 0.95):
        high = {0.0: 0.5, 0.5: 0.7, 0.7: 0.8, 0.8: 0.9, 0.9: 0.95, 0.95: 1.01}[low]
        mine = [match for match in found if match.finding is not None and low <= match.finding["confidence"] < high]
        if mine:
            yield f"  {low:.2f} to {min(high, 1):.2f}:   {_share(sum(match.is_cause_right for match in mine), len(mine))} right"
    yield "misses:"
    wrong = [match for match in all_ if not match.is_cause_right or not match.is_culprit_right]
    confusions = Counter((_cause(match, "truth"), _cause(match, "finding")) for match in wrong)
    for (was, said), count in confusions.most_common():
        yield f"  {was} -> {said}: {count}"
    for match in wrong:
        yield f"    {_described(match)}"


def _share(count: int, total: int) -> str:
    return f"{count} of {total}" + (f" ({count / total:.0%})" if total else "")


def _cause(match: Match, side: str) -> str:
    if side == "truth":
        return "nothing" if match.truth is None else match.truth.cause.value
    return "nothing" if match.finding is None else str(match.finding["cause"])


def _described(match: Match) -> str:
    was = "nothing was done"
    if match.truth is not None:
        truth = match.truth
        who = ", ".join(truth.subject.clients) or truth.subject.host or ""
        was = f"#{truth.incident_id} {truth.cause.value} ({truth.variant}) {','.join(truth.groups)} {who} {truth.start_ms}"
    said = "nothing was found"
    if match.finding is not None:
        finding = match.finding
        said = (
            f"{finding['cause']} {finding['confidence']:.2f} {','.join(finding['groups'])} "
            f"{','.join(finding['clients'][:4])} {finding['from_ms']}"
        )
    return f"{was}  |  {said}"


def _is_end(match: Match, end_ms: int | None) -> bool:
    """Whether a finding is only the end of the processes, which was noticed after the play."""
    return match.truth is None and match.finding is not None and end_ms is not None and match.finding["to_ms"] > end_ms


def main() -> int:
    """Print the score of all folders together."""
    parser = argparse.ArgumentParser(prog="python -m integration.real_incidents.score", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="+", help="as `python -m integration.real_incidents` left them")
    parser.add_argument("--source", choices=SOURCES, default=SOURCES[0], help="what the diagnosis may read at best")
    options = parser.parse_args()
    all_: list[Match] = []
    for folder in options.folder:
        play = read_truth(folder / "truth.jsonl")
        all_ += [
            each for each in matches(play.truths, findings(folder, options.source)) if not _is_end(each, play.end_ms)
        ]
    print("\n".join(report(all_)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
