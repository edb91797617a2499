"""How often `kshim why` is right about played incidents: plays them on kshim, explains its events, or its records, and counts.

    python -m integration.incidents.score --seed 24 [--incidents 40] [--services 8] [--rate 15] [--records] [--keep FOLDER]

Without Spark: the pipeline has the same diagnosis (docs/design/diagnosis.md). Seeds below 1000 are for those who change rules.
`--keep` leaves what was played in a folder, and scores what is in it if there is something.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from integration.incidents.clock import Pace
from integration.incidents.play import Plan, play
from integration.incidents.truth import Play, read_truth
from integration.spark.score import settings
from integration.spark.scoring import SLACK_MS, Found, Score, found_of, score
from integration.support.kshim import KshimProcess
from kshim.explain import Known, explain
from kshim.explain.document import incident_object
from kshim.tools.logs import NoTopic
from kshim.tools.logs.folder import FolderLogs
from kshim.tools.why.read import EVENTS_TOPIC, read


class _Records(FolderLogs):
    """Without the events."""

    def partitions(self, topic: str) -> list[int]:
        if topic == EVENTS_TOPIC:
            raise NoTopic(topic)
        return super().partitions(topic)


def found_in(known: Known) -> list[Found]:
    """What explains it."""
    return [found_of(incident_object(each)) for each in explain(known)]


def main() -> None:
    """Print the four figures, and what was taken for what."""
    parser = argparse.ArgumentParser(prog="python -m integration.incidents.score", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--incidents", type=int, default=40)
    parser.add_argument("--services", type=int, default=8)
    parser.add_argument("--rate", type=int, default=15)
    parser.add_argument("--records", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        truth, kshim = folder / "truth.jsonl", _broker(folder, options.rate)
        if not truth.exists():
            _play(kshim, truth, options)
        of_play = read_truth(truth)
        logs = _Records if options.records else FolderLogs
        known = read(logs([str(kshim.data)]), group=None).known
        found = found_in(known)
        of = score(of_play, found, slack_ms=options.rate * SLACK_MS)
    _tell(of, of_play, found)


def _broker(folder: Path, rate: int) -> KshimProcess:
    options = ("--events-topic", f"--clock=x{rate}")
    return KshimProcess(folder / "kshim", config=settings(Pace.BROKER, rate), options=options, durable=True)


def _play(kshim: KshimProcess, truth: Path, options: argparse.Namespace) -> None:
    kshim.start()
    try:
        host, _, port = kshim.bootstrap.rpartition(":")
        played = play(
            (host, int(port)),
            truth,
            Plan(options.seed, options.services, options.incidents, options.rate),
            Pace.BROKER,
        )
        print(
            f"{played.incident_count} incidents in {played.seconds:.0f} s, {played.failed_count} did not end, "
            f"late by {played.latest_s:.2f} s at most, the broker by {played.slowest_answer_s:.2f} s, "
            f"{played.accident_count} accidents"
        )
    finally:
        kshim.stop()


def _tell(of: Score, play: Play, found: list[Found]) -> None:
    print(f"{of.truths} incidents, {of.found} findings; {of.left_out} left out")
    names = ("cause recall", "cause precision", "member recall", "member precision")
    print(", ".join(f"{name} {figure:.1%}" for name, figure in zip(names, of.figures, strict=True)))
    wrong = {pair: count for pair, count in of.confusions.items() if pair[0] != pair[1]}
    for (actual, diagnosed), count in sorted(wrong.items(), key=lambda row: -row[1]):
        print(f"  {actual} -> {diagnosed}: {count}")


if __name__ == "__main__":
    main()
