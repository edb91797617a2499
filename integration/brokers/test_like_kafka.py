"""Three brokers of one kshim answer as three nodes of Kafka 4.4, when the wrong one is asked and after a move.

`kafka_answers.txt` holds what Kafka answered; a long test holds it against a live one.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from integration.brokers.kafka import KafkaCluster
from integration.brokers.questions import (
    SHARDS,
    Brokers,
    answers_about_elections,
    answers_about_groups,
    answers_about_records,
    answers_about_transactions,
)
from integration.support.fixtures import available
from integration.support.kshim import KshimProcess

CONFIG = {"offsets.topic.num.partitions": str(SHARDS), "transaction.state.log.num.partitions": str(SHARDS)}
ANSWERS = Path(__file__).with_name("kafka_answers.txt")


def answers(ports: list[int]) -> list[str]:
    brokers = Brokers(ports)
    try:
        return list(
            chain(
                answers_about_records(brokers),
                answers_about_groups(brokers),
                answers_about_elections(brokers),
                answers_about_transactions(brokers),
            )
        )
    finally:
        brokers.close()


def test_three_brokers_answer_as_those_of_kafka(tmp_path: Path) -> None:
    kshim = KshimProcess(tmp_path, config=CONFIG, options=("--brokers=3",))
    kshim.start()
    found = answers([int(address.rpartition(":")[2]) for address in kshim.bootstrap.split(",")])
    kshim.stop()
    assert found == ANSWERS.read_text().splitlines()


@pytest.mark.long
@pytest.mark.kafka
def test_what_is_known_of_kafkas_answers_is_what_it_answers(tmp_path: Path) -> None:
    kafka = available(lambda: KafkaCluster(tmp_path, CONFIG))
    kafka.start()
    try:
        assert answers(kafka.ports) == ANSWERS.read_text().splitlines()
    finally:
        kafka.kill()
