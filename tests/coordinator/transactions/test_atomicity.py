"""Whatever fails, and whenever: a transaction is wholly visible or not at all, and so are its offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from kshim.coordinator.groups.offsets.shard_offsets import Offsets
from kshim.coordinator.transactions.coordinator import TransactionCoordinator
from kshim.coordinator.transactions.markers import write_markers
from kshim_protocol.errors import ErrorCode
from tests.coordinator.transactions.broker_model import PARTITIONS, BrokerModel, Crash
from tests.coordinator.transactions.copier import ABORTED, COMMITTED, Copier

MINUTE_MS = 60_000
ZOMBIE = -1


class Run:
    """Some copiers and a broker that fails, decided by a seed."""

    def __init__(self, seed: int, *, waits_for_power: bool, level: int, copiers: int = 3) -> None:
        self.random = Random(seed)
        self.broker = BrokerModel(waits_for_power=waits_for_power, level=level)
        self.copiers = [Copier(self.broker, serial, self.random) for serial in range(1, copiers + 1)]
        self.crashes = 0

    def step(self) -> None:
        """A copier goes on, a log is synced, time passes, a shard is loaded again."""
        broker, random = self.broker, self.random
        try:
            what = random.random()
            if what < 0.6:
                random.choice(self.copiers).step()
            elif what < 0.85 and broker.logs:
                for log in random.sample(list(broker.logs.values()), min(4, len(broker.logs))):
                    broker.sync(log)
            elif what < 0.87:
                self.write_as_a_zombie(random.choice(self.copiers))
            elif what < 0.9:
                broker.pass_ms(random.choice([100, 1_000, MINUTE_MS]))
            else:
                index = random.randrange(4)
                broker.transactions.unload(index)
                broker.transactions.begin_load(index)
                broker.transactions.replay(index, list(broker.log("__transaction_state", index).entries))
                broker.apply(broker.transactions.finish_load(index, broker.now))
        except Crash:
            self.crash()

    def write_as_a_zombie(self, copier: Copier) -> None:
        """A process that was replaced long ago writes once more."""
        if copier.fenced:
            copier.write(self.random.choice(copier.fenced), self.random.randrange(PARTITIONS), ZOMBIE)

    def crash_at(self, write: int, *, after: bool) -> None:
        """Let the broker fail at that write."""
        self.broker.crash_at = write
        self.broker.crashes_after = after

    def crash(self) -> None:
        """Everybody begins again with what is in the logs."""
        self.crashes += 1
        self.broker.restart(self.random)
        for copier in self.copiers:
            copier.lose()

    def end(self) -> None:
        """Nothing fails any more, and all that is open times out."""
        for _ in range(5):
            self.broker.sync_all()
            self.broker.pass_ms(2 * MINUTE_MS)

    def check(self) -> None:
        """What readers see are whole transactions, as their producers were told; offsets agree; epochs never fall."""
        broker = self.broker
        assert broker.undecided() == []
        visible = [broker.visible(partition) for partition in range(PARTITIONS)]
        assert not any(ZOMBIE in values for values in visible)
        for copier in self.copiers:
            seen = []
            for value, partitions in copier.partitions.items():
                found = [visible[partition].count(value) for partition in range(PARTITIONS)]
                wanted = [int(partition in partitions) for partition in range(PARTITIONS)]
                assert found in (wanted, [0] * PARTITIONS), f"{value} is in {found}, not in {wanted}"
                if copier.outcomes.get(value) == COMMITTED:
                    assert found == wanted, f"{value} was committed"
                if copier.outcomes.get(value) == ABORTED:
                    assert found != wanted, f"{value} was aborted"
                if found == wanted:
                    seen.append(value)
            assert broker.offset(copier.group_id) == (seen[-1] if seen else None)
            assert not broker.has_pending(copier.group_id)
        for epochs in broker.epochs().values():
            for (before_id, before), (after_id, after) in pairwise(epochs):
                assert before_id != after_id or before <= after


def play(seed: int, *, waits_for_power: bool, level: int) -> Run:
    """A run of some lives. Raises AssertionError when something is seen that must not be."""
    run = Run(seed, waits_for_power=waits_for_power, level=level)
    for _ in range(7):
        run.crash_at(run.broker.writes + run.random.randint(1, 80), after=run.random.random() < 0.5)
        for _ in range(110):
            run.step()
        if run.random.random() < 0.5:
            run.crash()
    run.broker.crash_at = None
    run.end()
    run.check()
    return run


@pytest.mark.parametrize("waits_for_power", [False, True], ids=["killed", "without power"])
def test_random_runs(waits_for_power: bool, level: int) -> None:
    runs = [play(seed, waits_for_power=waits_for_power, level=level) for seed in range(25)]
    told = Counter(outcome for run in runs for copier in run.copiers for outcome in copier.outcomes.values())
    assert sum(run.crashes for run in runs) > 80
    assert min(told[COMMITTED], told[ABORTED]) > 40


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_every_single_write(after: bool, level: int) -> None:
    write = 0
    crashes = 1
    while crashes:
        write += 1
        run = Run(7, waits_for_power=False, level=level, copiers=1)
        run.crash_at(write, after=after)
        for _ in range(60):
            run.step()
        crashes = run.crashes
        run.broker.crash_at = None
        run.end()
        run.check()
    assert write > 40


# That the runs find what is wrong


def no_markers_after_loading() -> AbstractContextManager[Any]:
    return patch("kshim.coordinator.transactions.coordinator.end_decided")


def markers_before_the_outcome_is_durable() -> AbstractContextManager[Any]:
    return patch("kshim.coordinator.transactions.end_txn.end_decided", write_markers)


def the_end_before_the_markers_are_durable() -> AbstractContextManager[Any]:
    def mark(self: BrokerModel, marker: Any) -> None:
        power, self.waits_for_power = self.waits_for_power, False
        durable = {where: log.durable_count for where, log in self.logs.items()}
        try:
            original(self, marker)
        finally:
            self.waits_for_power = power
            for where, count in durable.items():
                self.logs[where].durable_count = count

    original = BrokerModel._mark
    return patch.object(BrokerModel, "_mark", mark)


@contextmanager
def nobody_asks_whether_a_producer_may_write() -> Iterator[None]:
    with (
        patch.object(TransactionCoordinator, "verify", lambda *_: ErrorCode.NONE),
        patch.object(BrokerModel, "add", lambda self, producer, topic, partition, then: then(ErrorCode.NONE)),
    ):
        yield


def aborted_offsets_count() -> AbstractContextManager[Any]:
    return patch.object(Offsets, "abort_transaction", Offsets.commit_transaction)


@pytest.mark.parametrize(
    "defect",
    [
        no_markers_after_loading,
        markers_before_the_outcome_is_durable,
        the_end_before_the_markers_are_durable,
        nobody_asks_whether_a_producer_may_write,
        aborted_offsets_count,
    ],
    ids=lambda defect: defect.__name__,
)
def test_a_defect_is_found(defect: Callable[[], AbstractContextManager[Any]], level: int) -> None:
    with defect():
        for seed in range(60):
            try:
                play(seed, waits_for_power=bool(seed % 2), level=level)
            except AssertionError:
                return
    pytest.fail("nobody has noticed")
