"""The power goes at any moment of a transaction, under --fsync=always: it is whole or not at all, and what was told holds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kshim_protocol.errors import ErrorCode
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in
from tests.broker.transactional import TransactionalProducer, committed_offset, committed_values
from tests.simulation.durability.disk import SimulatedDisk


class PowerLoss(Exception):
    """Nothing happens any more."""


class Patient(Client):
    """A client that lets the node work until it is answered, by one yield of one task at a time, at most `steps` of all."""

    def __init__(self, node: NodeUnderTest, steps: int, rng: Random) -> None:
        super().__init__(node, "patient", "/127.0.0.1")
        self.steps_left = steps
        self._rng = rng
        self._underway: list[Any] = []

    def ask(self, request: Any, version: int | None = None, *, client_id: str | None = None) -> Any:
        self.send(request, version, client_id=client_id)
        while self.is_waiting:
            self.work()
        return self.unread.popleft()

    def work(self) -> bool:
        """One step; False when there is nothing to do. Raises PowerLoss."""
        background_tasks = self._node.node.background_tasks
        while (task := background_tasks.next_urgent() or background_tasks.next()) is not None:
            self._underway.append(task)
        if not self._underway:
            return False
        if not self.steps_left:
            raise PowerLoss
        self.steps_left -= 1
        task = self._rng.choice(self._underway)
        try:
            job = next(task)
            while job is not None:
                job = task.send(job())
        except StopIteration:
            self._underway.remove(task)
        return True


def transact(client: Patient) -> bool:
    """One transaction over two partitions and a group; whether the commit was acknowledged. Raises PowerLoss."""
    producer = TransactionalProducer(client)
    producer.write("t", 0, b"a")
    producer.write("t", 1, b"b")
    producer.commit_offset("g", "t", 42)
    return producer.end(committed=True) is ErrorCode.NONE


Outcome = tuple[list[list[bytes | None]], tuple[int, ErrorCode]]
NOTHING: Outcome = ([[], []], (-1, ErrorCode.NONE))
EVERYTHING: Outcome = ([[b"a"], [b"b"]], (42, ErrorCode.NONE))


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_transaction_that_meets_a_loss_of_power(tmp_path: Path, seed: int, level: int) -> None:
    config = {"kshim.transaction.version": str(level)}
    seen: list[Outcome] = []
    steps = 0
    is_over = False
    while not is_over:
        rng = Random(seed * 1_000 + steps)
        disk = SimulatedDisk(tmp_path / str(steps))
        storage = files_in(tmp_path / str(steps), disk)
        node = a_node(config, topics={"t": 2}, storage=storage, fsync="always")
        client = Patient(node, steps, rng)
        was_acknowledged = False
        try:
            was_acknowledged = transact(client)
            while client.work():
                pass
            is_over = True
        except PowerLoss:
            pass
        storage._directory._lock.release()
        disk.end_process()
        disk.lose_power(rng)
        after = a_node(config, storage=files_in(tmp_path / str(steps)), fsync="always")
        patient = Patient(after, 10_000, rng)
        while patient.work():
            pass
        after.pass_ms(61_000)
        while patient.work():
            pass
        values = [committed_values(patient, "t", partition) for partition in (0, 1)]
        outcome = (values, committed_offset(patient, "g", "t"))
        assert outcome in (NOTHING, EVERYTHING), f"after {steps} steps"
        assert outcome == EVERYTHING or not was_acknowledged, f"after {steps} steps"
        seen.append(outcome)
        after.close()
        steps += 1
    assert NOTHING in seen
    assert EVERYTHING in seen[:-1]
