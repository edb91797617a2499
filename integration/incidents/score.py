"""How often `kshim why` is right about played incidents: plays them on kshim, explains its events, or its records, and counts.

    python -m integration.incidents.score --seed 24 [--incidents 40] [--services 8] [--times 15] [--records]

Without Spark: the pipeline is to have the same diagnosis (docs/design/diagnosis.md). Seeds below 1000 are for those who change
rules.

The player's sessions are of 1.5 to 3.2 s, so that it is done soon, but how long a container or a JVM takes to start does not
depend on sessions. `--times` makes all that was read so many times slower: with 15, sessions are Kafka's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from integration.incidents.play import play
from integration.incidents.truth import read_truth
from integration.spark.score import CONFIG
from integration.spark.scoring import Found, found_of, score
from integration.support.kshim import KshimProcess
from kshim.explain import Known, explain
from kshim.explain.document import incident_object
from kshim.tools.logs.folder import FolderLogs
from kshim.tools.why.read import read

_INSTANT_MS = 10**12
"""More than this is an instant, ms since 1970; less is a duration."""


def slower(value: Any, times: int, since_ms: int) -> Any:
    """What happened, with `times` as much time between any two instants; those of `since_ms` stay what they are."""
    if isinstance(value, Mapping):
        return {name: slower(part, times, since_ms) for name, part in value.items()}
    if not isinstance(value, tuple):
        return value
    if not hasattr(value, "_fields"):
        return tuple(slower(part, times, since_ms) for part in value)
    parts = {}
    for name, part in zip(value._fields, value, strict=True):
        if name.endswith("_ms") and isinstance(part, int):
            parts[name] = since_ms + times * (part - since_ms) if part > _INSTANT_MS else times * part
        else:
            parts[name] = slower(part, times, since_ms)
    return type(value)(**parts)


def found_in(known: Known, *, times: int = 1) -> list[Found]:
    """What explains it, at the times at which it was played."""
    since_ms = known.facts[0].ts_ms if known.facts else 0

    def as_played(ts_ms: int) -> int:
        return since_ms + (ts_ms - since_ms) // times

    found = (found_of(incident_object(each)) for each in explain(slower(known, times, since_ms)))
    return [each._replace(from_ms=as_played(each.from_ms), to_ms=as_played(each.to_ms)) for each in found]


def main() -> None:
    """Print the four figures, and what was taken for what."""
    parser = argparse.ArgumentParser(prog="python -m integration.incidents.score", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--incidents", type=int, default=40)
    parser.add_argument("--services", type=int, default=8)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        truth = Path(name, "truth.jsonl")
        events = () if options.records else ("--events-topic",)
        kshim = KshimProcess(Path(name, "kshim"), config=CONFIG, options=events, durable=True)
        kshim.start()
        try:
            host, _, port = kshim.bootstrap.rpartition(":")
            counts = {"service_count": options.services, "incident_count": options.incidents}
            played = play((host, int(port)), truth, seed=options.seed, **counts)
        finally:
            kshim.stop()
        known = read(FolderLogs([str(kshim.data)]), group=None).known
        of = score(read_truth(truth), found_in(known, times=options.times))
    print(
        f"{of.truths} incidents, {of.found} findings; {of.left_out} left out: late by {played.latest_s:.2f} s at most"
    )
    names = ("cause recall", "cause precision", "member recall", "member precision")
    print(", ".join(f"{name} {figure:.1%}" for name, figure in zip(names, of.figures, strict=True)))
    wrong = {pair: count for pair, count in of.confusions.items() if pair[0] != pair[1]}
    for (actual, diagnosed), count in sorted(wrong.items(), key=lambda row: -row[1]):
        print(f"  {actual} -> {diagnosed}: {count}")


if __name__ == "__main__":
    main()
