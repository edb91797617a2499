"""`kshim serve --record` as a process: the file it leaves when it ends, and when it is killed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from kshim.replay.replay import Replay, replay
from kshim.tools.client import Client
from kshim_protocol.messages.metadata import MetadataRequest
from tests.cli.process import SERVE, TIMEOUT_S, Kshim


def recorded(tmp_path: Path, *options: str) -> tuple[Kshim, Path]:
    path = tmp_path / "broker.rec"
    return Kshim(tmp_path / "log", "--listen", "127.0.0.1:0", "--record", str(path), *options), path


def ask(broker: Kshim) -> None:
    client = Client(*broker.address, client_id="c", timeout_s=TIMEOUT_S)
    client.ask(MetadataRequest(topics=None), 12)
    client.close()


def replayed(path: Path) -> Replay:
    with path.open("rb") as file:
        return replay(file)


def test_a_broker_that_ends_leaves_a_whole_recording(tmp_path: Path) -> None:
    broker, path = recorded(tmp_path, "--brokers", "2", "--topic", "t:3")
    with broker:
        host, _, port = broker.bootstrap.partition(",")[0].rpartition(":")
        client = Client(host, int(port), client_id="c", timeout_s=TIMEOUT_S)
        client.ask(MetadataRequest(topics=None), 12)
        client.close()
        assert broker.end(signal.SIGTERM)[0] == 0
        assert f"Recording to {path}" in broker.log
    result = replayed(path)
    assert (result.differences, result.request_count, result.is_ended) == ([], 1, True)


def test_a_broker_that_is_killed_leaves_what_it_had_written(tmp_path: Path) -> None:
    broker, path = recorded(tmp_path)
    with broker:
        ask(broker)
        while not replayed(path).request_count:  # it is written half a second later
            pass
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait(TIMEOUT_S)
    result = replayed(path)
    assert (result.differences, result.request_count, result.is_ended) == ([], 1, False)


def test_a_file_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    command = [*SERVE, "--listen", "127.0.0.1:0", "--record", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 3
    assert ended.stderr == (
        f"kshim: --record: {path} is not empty; give another name, a recording never replaces a file\n"
    )
    assert path.read_text() == "data"
