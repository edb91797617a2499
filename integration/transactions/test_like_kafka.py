"""Raw requests of transactions are answered as Kafka 4.4 answers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.transactions.dialogue import KEPT, dialogue


def answers_of(bootstrap: str) -> list[str]:
    host, _, port = bootstrap.rpartition(":")
    return dialogue(host, int(port))


def test_kshim_answers_as_kafka_did(kshim_process: KshimProcess) -> None:
    assert answers_of(kshim_process.bootstrap) == KEPT.read_text().splitlines()


@pytest.mark.long
@pytest.mark.kafka
def test_kafka_answers_as_it_did(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path, features={"transaction.version": 0})
    kafka.start()
    try:
        assert answers_of(kafka.bootstrap) == KEPT.read_text().splitlines()
    finally:
        kafka.stop()
