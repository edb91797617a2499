"""`Kshim(record=FILE)`: what a test's clients and the test itself do can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.replay.replay import replay
from kshim.testing import Kshim
from kshim.tools.client import Client
from kshim_protocol.messages.heartbeat import HeartbeatRequest


def test_brokers_of_a_test_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "test.rec"
    with Kshim(topics={"t": 1}, record=path) as kshim:
        kshim.faults.on("Heartbeat").error("NOT_COORDINATOR").once()
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        client = Client(host, int(port), client_id="c")
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        answers = [client.ask(request, 4).error_code for _ in range(2)]
        client.close()
        assert answers == [16, 25]
        kshim.produce("t", "a")
    with path.open("rb") as file:
        result = replay(file)
    assert (result.differences, result.notes, result.request_count, result.is_ended) == ([], [], 2, True)


def test_recorded_brokers_cannot_be_reset(tmp_path: Path) -> None:
    with (
        Kshim(record=tmp_path / "test.rec") as kshim,
        pytest.raises(RuntimeError, match="not possible while a recording is written: leave record out"),
    ):
        kshim.reset()


def test_a_recording_does_not_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(FileExistsError, match="not empty"), Kshim(record=path):
        pass
    assert path.read_text() == "data"
