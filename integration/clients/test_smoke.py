"""A few situations with each Python client, in seconds. `make clients` plays all with all."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.clients.catalogue import client_named
from integration.clients.running import OK, play
from integration.clients.situations import SITUATIONS
from integration.support.kafka import RealKafka
from integration.support.kshim import KshimProcess

# Of the clients that no other suite has, more than a sign of life.
SMOKE = {
    "aiokafka": ("records_round_trip", "group_of_three", "transaction_offsets"),
    "confluent-kafka": ("records_round_trip", "transaction_offsets"),
    "confluent_kafka-consumer": ("commit_and_resume",),
    "kafka-python": ("transaction_offsets",),
}
CELLS = [pytest.param(client, name, id=f"{client}-{name}") for client, names in SMOKE.items() for name in names]


@pytest.mark.parametrize(("client", "situation"), CELLS)
def test_on_kshim(client: str, situation: str, kshim_process: KshimProcess, tmp_path: Path) -> None:
    (chosen,) = (each for each in SITUATIONS if each.name == situation)
    outcome = play(client_named(client), chosen, kshim_process, tmp_path)
    assert outcome.verdict == OK, failure(tmp_path, outcome.detail)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize(("client", "situation"), CELLS)
def test_on_kafka(client: str, situation: str, real_kafka: RealKafka, tmp_path: Path) -> None:
    (chosen,) = (each for each in SITUATIONS if each.name == situation)
    outcome = play(client_named(client), chosen, real_kafka, tmp_path)
    assert outcome.verdict == OK, failure(tmp_path, outcome.detail)


def failure(folder: Path, detail: str) -> str:
    """The whole story, where there is one."""
    file = folder / "failure.txt"
    return file.read_text() if file.exists() else detail
