"""Many sequences from one seed, several at a time: `python -m integration.differential.run --seed 1 --sequences 1000`.

Ends with 0 when the brokers never differed, with 1 when they did; then the shortest transcript found is printed, and
its steps are kept in a file that `--replay` plays again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from integration.differential.allowed import load_rules
from integration.differential.brokers import Pair, connected_pair, running_pair
from integration.differential.generate import Generator
from integration.differential.sequence import Difference, DrawnIdsDiffer, TimingLost
from integration.differential.sequence import Sequence as Play
from integration.differential.shrink import shortest
from integration.differential.steps import Step, dump_steps, load_steps

_TRIES = 3


class Found(NamedTuple):
    """A sequence that shows a difference."""

    name: str
    steps: list[Step]
    text: str


class Totals:
    """What all sequences together did."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sequences = 0
        self.stalled = 0
        self.drawn = 0
        self.found: list[Found] = []
        self.started = time.monotonic()

    def summary(self) -> str:
        """Numbers for people."""
        seconds = time.monotonic() - self.started
        counts = self.counts
        lines = [
            f"{self.sequences} sequences, {counts['requests']} requests to each broker in {seconds:.0f} s; "
            f"{counts['parked']} parked, {counts['released']} released by others, {counts['closed while parked']} closed "
            f"while parked, {counts['keep']} waits with some members alive, {counts['followed leaders']} times leaders "
            f"differed and each was followed; "
            f"{self.stalled} tries given up because this machine stalled, {self.drawn} because ids that the brokers drew sort "
            f"differently; {len(self.found)} differences",
        ]
        for kind in ("api", "error", "state", "allowed"):
            entries = sorted((key, count) for key, count in counts.items() if key.startswith(f"{kind} "))
            lines += [f"  {key}: {count}" for key, count in entries]
        return "\n".join(lines)


def play_random(
    pair: Pair, seed: str, requests: int, prefix: str, *, only_epochs: bool = False
) -> tuple[Play, list[Step], str | None]:
    """One sequence: what was played, its steps, and the difference if there is one. Raises Inconclusive."""
    rnd = random.Random(seed)
    play = Play(pair, prefix, load_rules())
    generator = Generator(rnd, play.model)
    if only_epochs:
        generator.profile.only_epochs(rnd)
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


def run(
    pair: Pair,
    *,
    seed: int,
    sequences: int,
    requests: int,
    at_once: int,
    stop_after: int,
    only_epochs: bool = False,
) -> Totals:
    """Play sequences on both brokers until all are done or `stop_after` differences are found."""
    totals = Totals()
    run_id = f"{seed}x{int(time.time()) % 1_000_000}"

    def one(index: int) -> None:
        for attempt in range(_TRIES):
            if len(totals.found) >= stop_after:
                return
            try:
                prefix = f"d{run_id}-{index}-{attempt}"
                play, steps, text = play_random(pair, f"{seed}.{index}", requests, prefix, only_epochs=only_epochs)
            except TimingLost:
                totals.stalled += 1
                continue
            except DrawnIdsDiffer:
                totals.drawn += 1
                continue
            totals.sequences += 1
            totals.counts += play.counts
            if text is not None:
                totals.found.append(Found(f"{seed}.{index}", steps, text))
                print(f"  difference {seed}.{index}:\n{text}", file=sys.stderr, flush=True)
            return

    with ThreadPoolExecutor(at_once) as pool:
        for done, _ in enumerate(pool.map(one, range(sequences)), 1):
            if done % 100 == 0:
                print(f"  {done} sequences, {totals.counts['requests']} requests", file=sys.stderr, flush=True)
    return totals


def report(pair: Pair, found: Found, directory: Path) -> str:
    """The shortest form of a difference; its steps are kept in `directory`."""
    print(f"  shortening {found.name} ...", file=sys.stderr, flush=True)
    shrunk = shortest(pair, load_rules(), found.steps)
    steps, text = shrunk or (found.steps, found.text)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{found.name}.steps"
    path.write_text(dump_steps(steps))
    note = "" if shrunk else " (seen once; it did not show again)"
    return f"difference {found.name}{note}, steps in {path}:\n{text}\n"


@contextmanager
def _brokers(options: argparse.Namespace) -> Iterator[Pair]:
    if options.kshim and options.kafka:
        yield connected_pair(options.kshim, options.kafka)
        return
    with tempfile.TemporaryDirectory() as directory, running_pair(Path(directory), dict(options.config)) as pair:
        yield pair


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m integration.differential.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=50, help="requests a sequence")
    parser.add_argument("--at-once", type=int, default=8, help="sequences at the same time")
    parser.add_argument("--stop-after", type=int, default=3, help="differences to find")
    parser.add_argument(
        "--keep", type=Path, default=Path(".cache/differences"), help="where steps of differences are written"
    )
    parser.add_argument("--only-epochs", action="store_true", help="only sequences about groups of the new protocol")
    parser.add_argument(
        "--config",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of both brokers, e.g. group.consumer.migration.policy=upgrade",
    )
    parser.add_argument("--replay", type=Path, help="play the steps of this file")
    parser.add_argument(
        "--kshim", help="HOST:PORT of a running kshim (both brokers must be configured as brokers.py does)"
    )
    parser.add_argument("--kafka", help="HOST:PORT of a running Kafka")
    options = parser.parse_args(arguments)
    with _brokers(options) as pair:
        if options.replay:
            found = Found(options.replay.stem, load_steps(options.replay.read_text()), "")
            print(report(pair, found, options.keep))
            return 0
        totals = run(
            pair,
            seed=options.seed,
            sequences=options.sequences,
            requests=options.requests,
            at_once=options.at_once,
            stop_after=options.stop_after,
            only_epochs=options.only_epochs,
        )
        for found in totals.found[: options.stop_after]:
            print(report(pair, found, options.keep), flush=True)
    print(totals.summary())
    return 1 if totals.found else 0


if __name__ == "__main__":
    sys.exit(main())
