"""`kshim replay` as a command: its report, its exit codes and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshim.cli.main import main
from kshim.tools.scenario.parse import parse_scenario
from tests.recording.session import Recorded, a_stable_member


@pytest.fixture
def recording(tmp_path: Path) -> str:
    recorded = Recorded({"group.initial.rebalance.delay.ms": "0"}, topics={"t": 1})
    member = a_stable_member(recorded.node)
    member.commit(5)
    recorded.node.pass_ms(46_000)
    member.heartbeat()
    path = tmp_path / "session.rec"
    path.write_bytes(recorded.data)
    return str(path)


def test_a_recording_that_replays_as_it_was(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording]) == 0
    assert capsys.readouterr().out.startswith("5 requests of 1 connection in 46.0 s, replayed in ")


def test_differences_are_reported_with_their_fields(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording, "--set", "offset.metadata.max.bytes=-1"]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Request 4, ")
    assert first.endswith(", OffsetCommit v8 of a (connection 1, group g):")
    assert second == ("  topics[t].partitions[0].error_code: NONE in the recording, OFFSET_METADATA_TOO_LARGE now")
    assert last.endswith(": 1 answer differs.")


def test_json_has_everything(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording, "--json", "--summary", "--set", "offset.metadata.max.bytes=-1"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["differences"][0]["fields"] == [
        {
            "path": "topics[t].partitions[0].error_code",
            "recorded": "NONE",
            "replayed": "OFFSET_METADATA_TOO_LARGE",
        }
    ]
    (group,) = document["groups"]
    assert [(rebalance["cause"], rebalance["end"]) for rebalance in group["rebalances"]] == [
        ("member-joined", "completed"),
        ("session-expired", "empty"),
    ]
    assert document["is_whole"]


def test_the_summary_says_why_groups_rebalanced(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording, "--summary", "--group", "g"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Group g: Empty, generation 2, 2 rebalances\n")
    assert "session-expired: removing member a-" in out


def test_pages_show_why_groups_rebalanced_and_need_nothing_else(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pages" / "of it"
    assert main(["replay", recording, "--html", str(folder), "--group", "g"]) == 0
    (page,) = folder.iterdir()
    assert capsys.readouterr().err == f"kshim: wrote {page}\n"
    html = page.read_text()
    assert "kshim replay of session.rec" in html
    assert "expired: no heartbeat came in time" in html
    assert "<svg class='lanes'" in html
    assert "<script" not in html


@pytest.mark.parametrize(
    "wanted", [["--summary"], ["--summary", "--json"], ["--to-test", "test.txt"], ["--html", "pages"]]
)
def test_a_group_that_is_not_there_is_named_with_those_that_are(
    recording: str,
    wanted: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["replay", recording, *wanted, "--group", "nope"]) == 1
    assert capsys.readouterr() == ("", f"kshim: --group: {recording} has no group nope; it has g\n")


def test_a_recording_without_requests_leaves_nothing_to_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.rec"
    path.write_bytes(Recorded().data)
    assert main(["replay", str(path)]) == 1
    assert capsys.readouterr().out == "There was nothing to replay: the recording has no request.\n"


def test_a_test_is_written_and_never_over_a_file(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "test.txt"
    assert main(["replay", recording, "--to-test", str(target)]) == 0
    assert parse_scenario("test", target.read_text()).title == "What happened in session.rec"
    assert "with 6 steps; nothing is left out" in capsys.readouterr().err
    assert main(["replay", recording, "--to-test", str(target)]) == 3
    assert capsys.readouterr().err == f"kshim: --to-test: {target} exists already\n"


def test_what_cannot_be_replayed(tmp_path: Path, recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.write_text("not a recording at all")
    missing = str(tmp_path / "missing")
    cases: list[tuple[list[str], int, str]] = [
        ([missing], 3, f"cannot read {missing}: No such file or directory"),
        ([str(other)], 3, f"{other}: this is not a recording of kshim"),
        (
            [recording, "--set", "group.max.size=many"],
            2,
            "--set: group.max.size=many: expected an integer of at least 1",
        ),
        (
            [recording, "--set", "group.max.sise=2"],
            2,
            "--set: group.max.sise is not a configuration key of Kafka; did you mean group.max.size?",
        ),
        (
            [recording, "--group", "g"],
            2,
            "--group is for --summary, --to-test and --html: the replay itself is of all groups",
        ),
        ([recording, "--speed", "2"], 2, "--speed is for --against: without that, time is virtual"),
        (
            [recording, "--against", "127.0.0.1:9", "--set", "a=b"],
            2,
            "--set is not possible with --against: a running broker is only asked",
        ),
        (
            [recording, "--against", "127.0.0.1:9", "--html", "pages"],
            2,
            "--html is not possible with --against: a running broker is only asked",
        ),
        (
            [recording, "--html", str(other / "pages")],
            3,
            f"--html: cannot write to {other / 'pages'}: Not a directory",
        ),
        (
            [recording, "--against", "127.0.0.1:9"],
            1,
            "--against 127.0.0.1:9: cannot connect to 127.0.0.1:9: Connection refused",
        ),
    ]
    for arguments, code, sentence in cases:
        assert main(["replay", *arguments]) == code
        assert capsys.readouterr().err == f"kshim: {sentence}\n"
