"""Raw requests of transactions are answered as Kafka 4.4 answers them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from integration.support.broker import Broker
from integration.support.fixtures import available
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess
from integration.transactions.dialogue import KEPT, dialogue
from integration.transactions.producer import Producer, Talk


def broker_at(kind: str, level: int, directory: Path) -> Broker:
    """One that is not started, with that level of transaction.version."""
    if kind == "kafka":
        return RealKafka(directory, features={"transaction.version": level})
    return KshimProcess(directory, config={"kshim.transaction.version": str(level)})


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


@pytest.mark.parametrize(
    ("kind", "level", "outcome"),
    [
        ("kshim", 0, "PRODUCER_FENCED"),
        ("kshim", 1, "PRODUCER_FENCED"),
        ("kshim", None, "NONE producer=0 epoch=1"),
        pytest.param("kafka", 1, "PRODUCER_FENCED", marks=[pytest.mark.long, pytest.mark.kafka]),
        pytest.param("kafka", None, "NONE producer=0 epoch=1", marks=pytest.mark.kafka),
    ],
)
def test_a_producer_that_goes_on_while_its_transaction_is_open_is_let_in_by_transaction_version_2_only(
    kind: str, level: int | None, outcome: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Its own InitProducerId aborts the transaction with the next epoch, and has to be repeated."""
    broker: Broker
    if level is not None:
        broker = available(lambda: broker_at(kind, level, tmp_path))
        broker.start()
        request.addfinalizer(broker.kill)
    else:
        broker = request.getfixturevalue("real_kafka" if kind == "kafka" else "kshim_process")
    host, _, port = broker.bootstrap.rpartition(":")
    name = f"goes-on-{uuid4().hex[:6]}"
    talk = Talk(host, int(port), name)
    request.addfinalizer(talk.client.close)
    talk.wait_for_transactions(name)
    _, producer_id, epoch = talk.init(name)
    talk.first_producer_id = producer_id
    mine = Producer(talk, name, producer_id, epoch)
    assert mine.add(0) == f"{name}-0:NONE"
    assert talk.inited(name, mine.key) == "CONCURRENT_TRANSACTIONS"
    assert talk.settled(name).startswith("CompleteAbort epoch=1")
    assert talk.inited(name, mine.key) == outcome
