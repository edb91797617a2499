"""Random calls of transactional producers are answered as by Kafka 4.4; the stage `transactions` of make test-all makes 10,000."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.transactions.random_calls import compare

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1_800)]

CALLS = int(os.environ.get("KSHIM_TRANSACTION_CALLS", "240"))


def test_random_calls_are_answered_alike(kshim_process: KshimProcess, real_kafka: RealKafka) -> None:
    found, answers = compare([kshim_process, real_kafka], 2, CALLS, seed=1)
    assert found == []
    assert len(answers) > 20


@pytest.mark.long
def test_random_calls_are_answered_alike_by_brokers_of_level_0(tmp_path: Path) -> None:
    kafka = available(lambda: RealKafka(tmp_path / "kafka", features={"transaction.version": 0}))
    kshim = KshimProcess(tmp_path / "kshim", config={"kshim.transaction.version": "0"})
    kshim.start()
    try:
        kafka.start()
        assert compare([kshim, kafka], 0, CALLS, seed=1)[0] == []
    finally:
        kshim.kill()
        kafka.kill()
