"""Run many seeds: `python -m tests.simulation.run --seeds 2000 --steps 500 [--first N] [--processes N]`.

Prints what was run, which faults were injected and what was met; a seed that fails is printed as its shortest
transcript, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from os import cpu_count
from random import Random
from time import monotonic
from typing import NamedTuple

from tests.simulation.script import REQUEST_VERBS, Script
from tests.simulation.shrink import shrink
from tests.simulation.simulate import Found, play, simulate
from tests.simulation.transcript import transcript

_MOST_FAILURES = 5


class Summary(NamedTuple):
    """What one seed or many did. `end_steps`: those after the faults, on the way to Stable and to nothing."""

    seeds: int
    steps: int
    end_steps: int
    faults: Counter[str]
    coverage: Counter[tuple[str, str, str]]
    failures: tuple[str, ...]


def run_seed(seed: int, steps: int) -> Summary:
    """Simulate one seed, and play it again with parts left out; a failure comes as its shortest transcript."""
    found = simulate(seed, steps)
    script, violation = found.script, found.violation
    if violation is None:
        script = thinned(found)
        violation = play(script)
    failures: tuple[str, ...] = ()
    if violation is not None:
        short = shrink(script, violation.rule)
        failures = (f"# seed {seed}: {violation}\n{transcript(short)}",)
    return Summary(1, found.steps, found.end_steps, found.faults, found.coverage, failures)


def thinned(found: Found) -> Script:
    """The run with a part of its inputs left out by chance: what clients do that lost their minds."""
    rng = Random(found.seed)
    share = rng.choice((0.05, 0.2, 0.5))
    return found.script._replace(inputs=tuple(what for what in found.script.inputs if rng.random() >= share))


def summarise(summaries: Iterator[Summary]) -> Summary:
    """Everything together; stops early when enough has failed."""
    seeds = steps = end_steps = 0
    faults: Counter[str] = Counter()
    coverage: Counter[tuple[str, str, str]] = Counter()
    failures: list[str] = []
    for one in summaries:
        seeds += one.seeds
        steps += one.steps
        end_steps += one.end_steps
        faults.update(one.faults)
        coverage.update(one.coverage)
        failures += one.failures
        if len(failures) >= _MOST_FAILURES:
            break
    return Summary(seeds, steps, end_steps, faults, coverage, tuple(failures))


def report(summary: Summary) -> str:
    """The summary for people."""
    lines = [
        f"{summary.seeds} seeds, {summary.steps} steps under faults, {summary.end_steps} after them, "
        f"{len(summary.failures)} failed",
        "",
        "Faults injected:",
    ]
    lines += [f"  {kind:<40}{count:>9}" for kind, count in sorted(summary.faults.items())]
    lines += ["", "Never met: " + (", ".join(_never_met(summary)) or "nothing")]
    lines += ["", f"Met: (state, request or transition, outcome or cause), {len(summary.coverage)} of them:"]
    lines += [
        f"  {state:<20} {verb:<22} {outcome:<30}{count:>9}"
        for (state, verb, outcome), count in sorted(summary.coverage.items())
    ]
    return "\n".join(lines)


def _never_met(summary: Summary) -> list[str]:
    """Requests that never came in some state."""
    met = {(state, verb) for state, verb, _ in summary.coverage}
    states = ("none", "unloaded", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
    verbs = sorted(REQUEST_VERBS - {"list"})
    return [f"{verb} in {state}" for state in states for verb in verbs if (state, verb) not in met]


def _run(task: tuple[int, int]) -> Summary:
    return run_seed(*task)


def main(argv: list[str] | None = None, write: Callable[[str], object] = print) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many seeds (2000)")
    parser.add_argument("--steps", type=int, default=500, help="steps a seed at least, its end not counted (500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--processes", type=int, default=cpu_count() or 1, help="worker processes (one a CPU)")
    options = parser.parse_args(argv)
    tasks = [(seed, options.steps) for seed in range(options.first, options.first + options.seeds)]
    began = monotonic()
    if options.processes <= 1 or len(tasks) == 1:
        summary = summarise(map(_run, tasks))
    else:
        with get_context("spawn").Pool(options.processes) as pool:
            summary = summarise(pool.imap_unordered(_run, tasks, chunksize=8))
    write(report(summary))
    write(f"\n{monotonic() - began:.0f} s")
    for failure in summary.failures:
        write(f"\n{failure}")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
