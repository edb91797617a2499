"""Kill a broker again and again while clients work, and see whether anything acknowledged is lost.

    python -m integration.durability.run --kills 200 --fsync interval [--seed N]

A process of its own, since kafka-python leaves the sockets of broken connections to the garbage collector.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from integration.durability.checks import Checker, tear
from integration.durability.ledger import Ledger
from integration.durability.load import ELSEWHERE, LIVE_GROUP, TOPIC, Load
from integration.support.broker import Deadline
from integration.support.client import TopicPartition
from integration.support.kshim import KshimProcess

PARTITIONS = 4


def main() -> int:
    """Exit code 0: nothing was lost. An AssertionError says what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--fsync", default="interval", choices=["never", "interval", "always"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(kill_repeatedly(Path(directory), options.kills, options.fsync, options.seed))
    return 0


def kill_repeatedly(directory: Path, kills: int, policy: str, seed: int) -> str:
    """Returns a sentence with what happened. Raises AssertionError when a promise was broken."""
    chance = random.Random(seed)
    topics = {TOPIC: PARTITIONS, ELSEWHERE: 20}
    broker = KshimProcess(directory, durable=True, topics=topics, options=(f"--fsync={policy}",))
    broker.start()
    ledger = Ledger()
    load = Load(broker.bootstrap, ledger)
    checker = Checker(broker.bootstrap)
    assignments_kept = torn = 0
    try:
        load.start()
        _until(lambda: load.consumed > 0, "the consumers have joined and read")
        for kill in range(kills):
            if kill % 2:
                _until(lambda: checker.assignments(LIVE_GROUP) is not None, "the group is stable")
            time.sleep(chance.uniform(0.05, 0.5))  # the moment of the kill is what this is about
            before = checker.assignments(LIVE_GROUP)
            broker.kill()
            promises = ledger.promises()
            if chance.random() < 0.5 and tear(directory / "data", chance):
                torn += 1
            broker.start()
            after = checker.assignments(LIVE_GROUP)
            if before is not None and after is not None:
                assert after == before, f"the assignments of a stable group have changed: {before}, {after}"
                assignments_kept += 1
            checker.require(promises)
        load.stop_producing()
        _until(lambda: _is_read_to_the_end(checker, ledger), "the consumers have gone on to the end of the topic")
    finally:
        try:
            load.stop()
        finally:
            broker.stop()
    assert ledger.commit_count > kills, "hardly anything was committed"
    assert ledger.record_count > kills, "hardly anything was produced"
    assert assignments_kept >= kills // 3, "the group was hardly ever stable"
    return (
        f"{kills} kills with --fsync {policy}, seed {seed}: {ledger.commit_count} commits and {ledger.record_count} "
        f"records acknowledged, none lost; {torn} torn writes; assignments the same {assignments_kept} times; "
        f"{load.consumed} records consumed"
    )


def _is_read_to_the_end(checker: Checker, ledger: Ledger) -> bool:
    promises = ledger.promises()
    checker.require(promises)
    committed = promises.commits[LIVE_GROUP]
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    return all(committed.get(partition, 0) >= checker.end_of(partition) for partition in partitions)


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = Deadline(60)
    while not is_so():
        deadline.check(what)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
