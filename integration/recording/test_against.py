"""A recording is played to another broker over the wire; ids, addresses and wording are the only differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.recording.sessions import record_a_short_session
from integration.support.kafka import RealKafka
from kshim.replay.replay import replay_against
from kshim.testing import Kshim


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "short.rec"
    record_a_short_session(path)
    return path


@pytest.fixture(params=["kshim", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        kafka: RealKafka = request.getfixturevalue("real_kafka")
        yield kafka.bootstrap
        return
    with Kshim(topics={"another": 1}) as kshim:  # so that producers and topics have other ids
        yield kshim.bootstrap_servers


def test_another_broker_answers_as_recorded(recording: Path, bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    with recording.open("rb") as file:
        result = replay_against(file, (host, int(port)))
    assert (result.differences, result.defects) == ([], [])
    assert result.compared_count > 20
