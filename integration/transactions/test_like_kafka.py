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


@pytest.mark.parametrize("kind", ["kshim", pytest.param("kafka", marks=[pytest.mark.long, pytest.mark.kafka])])
@pytest.mark.parametrize("level", [0, 2])
def test_the_answers_are_those_that_kafka_gave(kind: str, level: int, tmp_path: Path) -> None:
    broker = available(lambda: broker_at(kind, level, tmp_path))
    broker.start()
    try:
        host, _, port = broker.bootstrap.rpartition(":")
        assert dialogue(host, int(port), level) == KEPT[level].read_text().splitlines()
    finally:
        broker.stop()


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
