"""Random calls of transactional producers, to kshim and to a Kafka of the same transaction.version: the answers are the same.

    python -m integration.transactions.random_calls --calls 10000 [--seed N] [--levels 0,2]

A sequence is made from its seed, on transactional ids, groups and a topic of its own. A difference ends it, and is shown with
the fewest calls that still lead to it. After each end of a transaction its markers are waited for, as they come when they
come. Exit code 0: no difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from integration.support.broker import Broker
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.transactions.producer import Producer, Talk

CALLS_IN_A_SEQUENCE = 60
_IDS = 2
_GROUPS = 2
_PARTITIONS = (0, 1, 2)


class Call(NamedTuple):
    """One call: what, for which transactional id, by a producer so many epochs from the newest, and the rest."""

    what: str
    id: int
    epoch: int
    options: dict[str, Any]

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.what} id={self.id} epoch{self.epoch:+} {options}"


def random_call(chance: random.Random, level: int) -> Call:
    """Level 0 has no room for what clients of version 2 send: there Kafka is stuck after it, which is a defect."""
    has_version_2 = level > 0
    what = chance.choices(
        ["init", "go on", "add", "add group", "write", "commit", "end", "bump", "verify", "look"],
        [2, 3, 6 if has_version_2 else 14, 2, 14, 4, 5, 8 if has_version_2 else 0, 3, 4],
    )[0]
    options: dict[str, Any] = {}
    match what:
        case "init" | "go on":
            options = {"version": chance.choice([3, 4, 5, 5])}
            if what == "init" and chance.random() < 0.1:
                options["timeout_ms"] = chance.choice([0, -1, 900_001])
        case "add":
            options = {"version": chance.randint(0, 3), "partitions": _partitions(chance)}
        case "add group":
            options = {"version": chance.randint(0, 4), "group": chance.randrange(_GROUPS)}
        case "write":
            version = chance.choice([9, 10, 11, 11, 12, 12, 12, 12] if has_version_2 else [9, 10, 11, 11])
            ahead = chance.choice([0] * 8 + [-1, 1, 3])
            options = {"version": version, "partition": chance.choice(_PARTITIONS), "ahead": ahead}
            if chance.random() < 0.05:
                options["as_id"] = chance.randrange(_IDS)
        case "commit":
            version = chance.choice([0, 3, 4, 5, 5, 5] if has_version_2 else [0, 3, 4, 4])
            options = {"version": version, "group": chance.randrange(_GROUPS), "offset": chance.randrange(100)}
        case "end":
            options = {"version": chance.randint(0, 4), "committed": chance.random() < 0.6}
        case "bump":
            options = {"committed": chance.random() < 0.6}
        case "verify":
            verify_only = not has_version_2 or chance.random() < 0.7
            options = {"version": chance.randint(4, 5), "partitions": _partitions(chance), "verify_only": verify_only}
        case _:
            pass
    epoch = chance.choices([0, -1, 1, -2], [20, 2, 1, 1])[0]
    return Call(what, chance.randrange(_IDS), epoch, options)


def _partitions(chance: random.Random) -> tuple[int, ...]:
    return (
        tuple(chance.sample((*_PARTITIONS, 7), chance.choice([1, 1, 2])))
        if chance.random() < 0.1
        else (chance.choice(_PARTITIONS),)
    )


class Side:
    """One broker, and what a client of it knows: the newest producer of each id, the next sequence of each partition."""

    def __init__(self, name: str, bootstrap: str, run: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.name = name
        self._run = run
        self._talk = Talk(host, int(port), f"r-{run}")
        self._talk.wait_for_transactions(f"{run}-0")
        self._talk.wait_for_leaders()
        self._groups = [f"g-{run}-{number}" for number in range(_GROUPS)]
        for group in self._groups:
            self._talk.find(group, 0)
        self._producers: dict[int, Producer] = {}
        self._next: Counter[tuple[int, int, int]] = Counter()

    def close(self) -> None:
        """Give up the connection."""
        self._talk.client.close()

    def answer(self, call: Call) -> str:
        """What the broker answers, in words that do not depend on its names and ids."""
        return self._answer(call).replace(self._run, "RUN")

    def _answer(self, call: Call) -> str:
        name = f"{self._run}-{call.id}"
        options = dict(call.options)
        producer = self._producers.get(call.id)
        if call.what == "init" or producer is None:
            return self._initialized(call.id, name, (-1, -1), call.options if call.what == "init" else {})
        this = producer.but(epoch=call.epoch)
        match call.what:
            case "go on":
                return self._initialized(call.id, name, this.key, options)
            case "add":
                return this.add(*options.pop("partitions"), **options)
            case "verify":
                return this.verify(*options.pop("partitions"), **options)
            case "add group":
                return this.add_group(self._groups[options.pop("group")], **options)
            case "commit":
                offset = ("", 1, options.pop("offset"))
                return this.commit(self._groups[options.pop("group")], offset, **options)
            case "write":
                if "as_id" in options:
                    this = Producer(self._talk, f"{self._run}-{options['as_id']}", *this.key)
                return self._wrote(this, options)
            case "end":
                return f"{this.end(**options)} {self._talk.settled(name)}"
            case "bump":
                told = this.end_and_bump(**options)
                self._goes_on_with(call.id, this, told)
                return f"{told} {self._talk.settled(name)}"
            case _:
                return self._seen(name)

    def _initialized(self, id_: int, name: str, known: tuple[int, int], options: dict[str, int]) -> str:
        error, producer_id, epoch = self._talk.init(name, known, **options)
        if producer_id < 0:
            return f"{error.name} {self._talk.settled(name)}"
        before = self._producers.get(id_)
        self._producers[id_] = Producer(self._talk, name, producer_id, epoch)
        is_new = before is None or before.producer_id != producer_id
        return f"{error.name} epoch={epoch} {'new' if is_new else 'same'} producer id"

    def _wrote(self, producer: Producer, options: dict[str, int]) -> str:
        key = (*producer.key, options["partition"])
        sequence = max(self._next[key] + options["ahead"], 0)
        answer = producer.write(options["partition"], sequence, version=options["version"])
        if answer == "NONE":
            self._next[key] = max(self._next[key], sequence + 1)
        return f"{answer} of sequence {sequence}"

    def _goes_on_with(self, id_: int, producer: Producer, told: str) -> None:
        if told.startswith("NONE"):
            rises = [int(word.rpartition("+")[2]) for word in told.split()[1:]]
            self._producers[id_] = producer.but(producer_id=rises[0], epoch=rises[1])

    def _seen(self, name: str) -> str:
        ends = [self._talk.end(partition, isolation_level=level)[1] for level in (0, 1) for partition in _PARTITIONS]
        offsets = [
            self._talk.offsets(group, require_stable=stable) for group in self._groups for stable in (True, False)
        ]
        return f"{self._talk.state(name)} ends={ends} offsets={offsets}"


class Played(NamedTuple):
    """What came of a sequence: `lines` tell the calls and answers, the last one of a `difference` both answers."""

    lines: list[str]
    is_different: bool
    errors: Counter[str]

    @property
    def calls(self) -> int:
        """How many were made, up to and with the one that was answered differently."""
        return self.errors.total()


def play(brokers: Sequence[Broker], calls: Sequence[Call]) -> Played:
    """Make the calls to both brokers, up to the first that they answer differently."""
    run = uuid4().hex[:8]
    sides = [Side(broker.name, broker.bootstrap, run) for broker in brokers]
    lines: list[str] = []
    errors: Counter[str] = Counter()
    try:
        for call in calls:
            answers = [side.answer(call) for side in sides]
            errors[f"{call.what}: {answers[0].partition(' ')[0].rpartition(':')[2]}"] += 1
            if len(set(answers)) > 1:
                lines += [str(call), *(f"    {side.name}: {told}" for side, told in zip(sides, answers, strict=True))]
                return Played(lines, True, errors)
            lines.append(f"{call}: {answers[0]}")
    finally:
        for side in sides:
            side.close()
    return Played(lines, False, errors)


def shortest(brokers: Sequence[Broker], calls: Sequence[Call]) -> Played:
    """The same difference with as few calls as are found by leaving out one after the other; all when it does not return."""
    calls = list(calls)
    played = play(brokers, calls)
    if not played.is_different:
        return played
    at = len(calls) - 1
    while at >= 0:
        fewer = calls[:at] + calls[at + 1 :]
        shorter = play(brokers, fewer)
        if shorter.is_different:
            calls, played = fewer, shorter
        at -= 1
    return played


def compare(brokers: Sequence[Broker], level: int, calls: int, seed: int) -> tuple[list[list[str]], Counter[str]]:
    """The differences of many sequences, each as lines, and how often each answer came."""
    found: list[list[str]] = []
    errors: Counter[str] = Counter()
    for number in range(-(-calls // CALLS_IN_A_SEQUENCE)):
        chance = random.Random(f"{level}.{seed}.{number}")
        sequence = [random_call(chance, level) for _ in range(CALLS_IN_A_SEQUENCE)]
        played = play(brokers, sequence)
        errors += played.errors
        if played.is_different:
            fewest = shortest(brokers, sequence[: played.calls])
            note = "" if fewest.is_different else ", not seen again when its calls were repeated"
            lines = fewest.lines if fewest.is_different else played.lines
            found.append([f"sequence {level}.{seed}.{number}{note}", *lines])
            print("\n".join(found[-1]), file=sys.stderr, flush=True)
        elif number % 20 == 19:
            print(f"  {errors.total()} calls, {len(found)} differences", file=sys.stderr, flush=True)
    return found, errors


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000, help="at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--levels", default="0,2")
    options = parser.parse_args()
    differences = 0
    for level in map(int, options.levels.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            kafka = RealKafka(Path(directory, "kafka"), features={"transaction.version": level})
            kshim = KshimProcess(Path(directory, "kshim"), config={"kshim.transaction.version": str(level)})
            try:
                kshim.start()
                kafka.start()
                found, errors = compare([kshim, kafka], level, options.calls, options.seed)
            finally:
                kshim.kill()
                kafka.kill()
        print(f"transaction.version {level}: {errors.total()} calls, {len(found)} differences")
        print("\n".join(f"  {answer}: {count}" for answer, count in sorted(errors.items())), flush=True)
        differences += len(found)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
