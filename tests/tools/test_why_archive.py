"""`kshim why --record`: the same answer later, from one file."""

from __future__ import annotations

import json
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kshim.cli.main import main
from kshim.explain import explain
from kshim.explain.words import sentence
from kshim.testing import Kshim
from kshim.tools.logs.broker import BrokerLogs
from kshim.tools.why.archive import Archive, ArchiveWriter
from kshim.tools.why.follow import Follower
from kshim.tools.why.read import Reading
from tests.cli.process import COMMAND, TIMEOUT_S, hearing_ctrl_c
from tests.tools.peer import MINUTE, ONLY_RECORDS, Peer
from tests.tools.test_why import a_scaled_group, an_event, why_json, write_events

LINE = (
    "[2026-11-18 12:00:00,000] INFO [GroupCoordinator id=1] [Group billing] Member two-2 has left group through "
    "explicit `LeaveGroup` request; client reason: the consumer is being closed "
    "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
)


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with Kshim(topics={"orders": 1}, config=ONLY_RECORDS) as kshim:
        host, _, port = kshim.bootstrap_servers.rpartition(":")
        yield host, int(port)


def test_the_answer_from_a_recording_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path / "data")
    log, file = tmp_path / "server.log", str(tmp_path / "billing.zip")
    log.write_text(f"something else\n{LINE}\n")
    live = why_json(capsys, "billing", "--data-dir", str(tmp_path / "data"), "--broker-log", str(log), "--record", file)
    assert live["sources"] == ["log"]
    assert why_json(capsys, "billing", "--recorded", file) == live
    for output in ("text", "html"):
        assert main(["why", "--group", "billing", "--recorded", file, "--output", output]) == 0
        assert "two@10.0.0.1" in capsys.readouterr().out


def test_events_and_how_far_back_was_read_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_events(tmp_path, an_event("billing", "one"), an_event("shipping", "two"))
    file = str(tmp_path / "all.zip")
    live = why_json(capsys, "--all", "--data-dir", str(tmp_path), "--record", file)
    assert len(live["incidents"]) == 2
    assert why_json(capsys, "--all", "--recorded", file) == live
    assert len(why_json(capsys, "shipping", "--recorded", file)["incidents"]) == 1


def test_what_was_damaged_stays_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path)
    log = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    file = str(tmp_path / "billing.zip")
    live = why_json(capsys, "billing", "--data-dir", str(tmp_path), "--record", file)
    assert live["damaged"] == ["__consumer_offsets-0"]
    assert why_json(capsys, "billing", "--recorded", file) == live


def test_samples_of_a_running_cluster_are_kept(tmp_path: Path, logs: BrokerLogs, one: Peer) -> None:
    path = str(tmp_path / "billing.zip")
    writer = ArchiveWriter(path, logs, "billing")
    follower = Follower(logs, frozenset({"billing"}), archive=writer)
    one.work()
    follower.poll(0)
    one.leave()
    follower.poll(1)
    last_ms = follower.known.facts[-1].ts_ms
    live = follower.poll(last_ms + MINUTE)
    writer.close(last_ms + MINUTE)

    archive = Archive(path, "billing")
    reading = Reading(archive, frozenset({"billing"}), presence=archive.presence())
    reading.more()
    known = reading.result().known._replace(until_ms=archive.until_ms)
    assert known.sources == follower.known.sources == ("records", "samples")
    assert known.facts == follower.known.facts
    assert [sentence(each) for each in explain(known)][-1:] == [sentence(each) for each in live][-1:]


def test_an_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path / "data")
    file = tmp_path / "billing.zip"
    file.write_text("mine")
    assert main(["why", "billing", "--data-dir", str(tmp_path / "data"), "--record", str(file)]) == 3
    assert "cannot write" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_recording_of_one_group_says_nothing_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_scaled_group(tmp_path / "data")
    file = str(tmp_path / "billing.zip")
    why_json(capsys, "billing", "--data-dir", str(tmp_path / "data"), "--record", file)
    for who in ("shipping", "--all"):
        assert main(["why", who, "--recorded", file]) == 3
        assert "is of the group billing" in capsys.readouterr().err


def test_what_is_no_recording_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, other, later = (tmp_path / name for name in ("text", "other.zip", "later.zip"))
    text.write_text("no zip")
    for path, about in ((other, "[]"), (later, json.dumps({"version": 2, "group": None, "partitions": {}, "offsets": {}, "damaged": {}, "until_ms": 0}))):  # fmt: skip
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("about.json", about)
    for path, words in ((text, "is no file that --record wrote"), (other, "is no file that"), (later, "has version 2")):
        assert main(["why", "--all", "--recorded", str(path)]) == 3
        assert words in capsys.readouterr().err


def test_to_record_a_recording_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--all", "--recorded", "a", "--record", "b"]) == 2
    assert "--record writes what is read from a broker or directories" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_watched_is_whole_however_the_watcher_is_ended(
    address: tuple[str, int], number: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "all.zip"
    command = [COMMAND, "why", "--all", "--follow", "--bootstrap-server", f"{address[0]}:{address[1]}"]
    with hearing_ctrl_c():
        watcher = subprocess.Popen([*command, "--record", str(file)], stderr=subprocess.PIPE, text=True)
    assert watcher.stderr is not None
    assert watcher.stderr.readline().startswith("watching all groups")
    watcher.send_signal(number)
    watcher.communicate(timeout=TIMEOUT_S)
    assert watcher.returncode == 130
    with closing(Archive(str(file), None)) as archive:
        assert archive.until_ms > 0
