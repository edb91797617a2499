"""Many sequences about share groups from one seed: `python -m integration.share_groups.run --seed 1 --sequences 100`.

Ends with 0 when the brokers never differed, with 1 when they did; then the shortest transcript found is printed, and
its steps are kept in a file that `--replay` plays again.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from integration.differential.run import Found
from integration.differential.sequence import Difference, Inconclusive
from integration.differential.steps import Step, dump_steps, load_steps
from integration.share_groups.generate import Generator
from integration.share_groups.pair import Pair, connected_pair, running_pair
from integration.share_groups.sequence import Sequence as Play

_TRIES = 3
_SLOW = 4.0
_names = itertools.count()
_run = int(time.time()) % 1_000_000


class Totals:
    """What all sequences together did."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sequences = 0
        self.stalled = 0
        self.found: list[Found] = []
        self.started = time.monotonic()

    def summary(self) -> str:
        """Numbers for people."""
        counts = self.counts
        lines = [
            f"{self.sequences} sequences, {counts['requests']} requests to each broker in "
            f"{time.monotonic() - self.started:.0f} s; {counts['acquired']} records acquired, {counts['released']} waits "
            f"ended by others, {counts['expired']} times until locks had ended; {self.stalled} tries given up because this machine stalled; "
            f"{len(self.found)} differences"
        ]
        for kind in ("api", "error"):
            lines += [f"  {key}: {count}" for key, count in sorted(counts.items()) if key.startswith(f"{kind} ")]
        return "\n".join(lines)


def play_random(pair: Pair, seed: str, requests: int) -> tuple[Play, list[Step], str | None]:
    """One sequence: what was played, its steps, and the difference if there is one. Raises Inconclusive."""
    play = Play(pair, _prefix())
    generator = Generator(random.Random(seed), play.facts)
    steps: list[Step] = []
    try:
        while play.counts["requests"] < requests:
            step = generator.next_step()
            steps.append(step)
            play.play(step)
        play.finish()
    except Difference as difference:
        return play, steps, str(difference)
    finally:
        play.close()
    return play, steps, None


def _seen_again(pair: Pair, steps: Sequence[Step]) -> str | None:
    """The transcript up to the difference, with more time for everything, or with no more, as locks may end in that."""
    for pace in (_SLOW, 1.0):
        try:
            text = _difference_of(pair, steps, pace)
        except Inconclusive:
            continue
        if text is not None:
            return text
    return None


def difference_of(pair: Pair, steps: Sequence[Step]) -> str | None:
    """The transcript up to the difference; None when there is none, or none that this machine was quick enough for."""
    try:
        return _difference_of(pair, steps, 1.0)
    except Inconclusive:
        return None


def _difference_of(pair: Pair, steps: Sequence[Step], pace: float) -> str | None:
    """The same. Raises Inconclusive."""
    play = Play(pair, _prefix(), pace=pace)
    try:
        for step in steps:
            play.play(step)
        play.finish()
    except Difference as difference:
        return str(difference)
    finally:
        play.close()
    return None


def _prefix() -> str:
    return f"s{_run}-{next(_names)}-"


def shortest(pair: Pair, steps: list[Step], *, limit_s: float = 120.0) -> tuple[list[Step], str] | None:
    """Delete steps, long stretches first, while a difference remains and time is left. None: it did not show again."""
    over_at = time.monotonic() + limit_s
    found = difference_of(pair, steps)
    if found is None:
        return None
    size = max(1, len(steps) // 2)
    while True:
        at, has_shrunk = 0, False
        while at < len(steps):
            if time.monotonic() > over_at:
                return steps, found
            fewer = steps[:at] + steps[at + size :]
            text = difference_of(pair, fewer) if fewer else None
            if text is None:
                at += size
            else:
                steps, found, has_shrunk = fewer, text, True
        if size > 1:
            size //= 2
        elif not has_shrunk:
            return steps, found


def run(pair: Pair, *, seed: int, sequences: int, requests: int, at_once: int, stop_after: int) -> Totals:
    """Play sequences on both brokers until all are done or `stop_after` differences are found.

    A difference counts if it shows again.
    """
    totals = Totals()

    def one(index: int) -> None:
        for _ in range(_TRIES):
            if len(totals.found) >= stop_after:
                return
            try:
                play, steps, text = play_random(pair, f"{seed}.{index}", requests)
            except Inconclusive:
                totals.stalled += 1
                continue
            if text is not None and (again := _seen_again(pair, steps)) is None:
                print(f"  {seed}.{index}: seen once, not again:\n{text}", file=sys.stderr, flush=True)
                totals.stalled += 1
                continue
            totals.sequences += 1
            totals.counts += play.counts
            if text is not None and again is not None:
                totals.found.append(Found(f"{seed}.{index}", steps, again))
                print(f"  difference {seed}.{index}:\n{again}", file=sys.stderr, flush=True)
            return

    with ThreadPoolExecutor(at_once) as pool:
        for done, _ in enumerate(pool.map(one, range(sequences)), 1):
            if done % 20 == 0:
                print(f"  {done} sequences, {totals.counts['requests']} requests", file=sys.stderr, flush=True)
    return totals


def report(pair: Pair, found: Found, directory: Path, *, shorten: bool) -> str:
    """A difference, in its shortest form if it is wanted; its steps are kept in `directory`."""
    shrunk = shortest(pair, found.steps) if shorten else (found.steps, found.text)
    steps, text = shrunk or (found.steps, found.text)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{found.name}.steps"
    path.write_text(dump_steps(steps))
    note = "" if shrunk else " (seen twice; it did not show a third time)"
    return f"difference {found.name}{note}, steps in {path}:\n{text}\n"


@contextmanager
def _brokers(options: argparse.Namespace) -> Iterator[Pair]:
    if options.kshim and options.kafka:
        yield connected_pair(options.kshim, options.kafka)
        return
    with tempfile.TemporaryDirectory() as directory, running_pair(Path(directory)) as pair:
        yield pair


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m integration.share_groups.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--requests", type=int, default=50, help="requests a sequence")
    parser.add_argument("--at-once", type=int, default=8, help="sequences at the same time")
    parser.add_argument("--stop-after", type=int, default=3, help="differences to find")
    parser.add_argument("--keep", type=Path, default=Path(".cache/differences"), help="where steps of differences go")
    parser.add_argument("--replay", type=Path, help="play the steps of this file")
    parser.add_argument("--shorten", action="store_true", help="look for shorter forms of differences")
    parser.add_argument("--kshim", help="HOST:PORT of a running kshim, configured as pair.py does")
    parser.add_argument("--kafka", help="HOST:PORT of a running Kafka")
    options = parser.parse_args(arguments)
    with _brokers(options) as pair:
        if options.replay:
            text = difference_of(pair, load_steps(options.replay.read_text()))
            print(text or "no difference")
            return int(text is not None)
        totals = run(
            pair,
            seed=options.seed,
            sequences=options.sequences,
            requests=options.requests,
            at_once=options.at_once,
            stop_after=options.stop_after,
        )
        for found in totals.found[: options.stop_after]:
            print(report(pair, found, options.keep, shorten=options.shorten), flush=True)
    print(totals.summary())
    return 1 if totals.found else 0


if __name__ == "__main__":
    sys.exit(main())
