"""`kshim pipeline`: commands are loaded when asked for, and what goes wrong is a sentence and an exit code."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from kshim_pipeline.cli import COMMANDS, Command, main
from kshim_pipeline.errors import EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE
from kshim_pipeline.progress import Progress
from kshim_pipeline.setup import jars
from kshim_pipeline.setup.jars import JARS


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_can_be_run(command: Command) -> None:
    assert callable(command.load())


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["land"], ["land", "--bootstrap-server", "a:1", "--out"]])
def test_a_mistake_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == EXIT_USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["analyse", "--out", "x"], "Name at least one source"),
        (["analyse", "--out", "x", "--landed", "nowhere"], "There is no directory nowhere"),
        (["analyse", "--out", "x", "--data-dir", "nowhere"], "nowhere contains no partition of __consumer_offsets"),
        (["analyse", "--out", "x", "--broker-log", "nowhere"], "No such file: nowhere"),
        (["analyse", "--out", "x", "--broker-log", __file__, "--log-time-zone", "Mars"], "unknown time zone Mars"),
        (["analyse", "--out", "x", "--bootstrap-server", "127.0.0.1"], "'127.0.0.1' is not HOST:PORT"),
        (["analyse", "--out", "x", "--each-day", "--data-dir", "y"], "--each-day needs --landed"),
        (["analyse", "--out", "x", "--landed", ".", "--since", "2", "--until", "2"], "has to lie before --until"),
        (["report", "--out", "x", "--results", "nowhere"], "nowhere contains no results"),
        (["report", "--out", "s3a://lake/x", "--results", "nowhere"], "s3a://lake/x: a report is written to a file of"),
        (["report", "--out", "x", "--picture", "s3a://lake/x"], "s3a://lake/x: a report is written to a file of"),
        (
            ["report", "--out", "x", "--results", ".", "--since", "1"],
            "--since and --until choose what is read of a source",
        ),
        (
            ["explain", "billing", "--results", ".", "--until", "1"],
            "--since and --until choose what is read of a source",
        ),
        (["explain", "billing", "--results", "nowhere"], "nowhere contains no results"),
        (["budget"], "Give at least one limit"),
        (["budget", "--max-critical", "1"], "Name at least one source"),
        (["land", "--bootstrap-server", "a:1", "--out", "x", "--continuous", "0"], "--continuous must be a positive"),
        (["land", "--bootstrap-server", "a:1", "--out", "x[1]"], "--out x[1]: Spark takes a name with any of *?[]{}"),
        (["land", "--bootstrap-server", "a:b", "--out", "x"], "'a:b' is not HOST:PORT"),
        (["land", "--bootstrap-server", "a:1", "--out", "x", "--command-config", "nowhere"], "Cannot read nowhere"),
        (["watch", "--bootstrap-server", "a:1", "--checkpoint", "x", "--every", "0"], "must be positive numbers"),
        (
            ["watch", "--bootstrap-server", "a:1", "--checkpoint", "x", "--command-config", "nowhere"],
            "Cannot read nowhere",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_said_before_spark_starts(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java is not there, so that Spark could not start."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(arguments) in (EXIT_USAGE, EXIT_UNAVAILABLE)
    assert said in capsys.readouterr().err


def test_setup_takes_jars_from_a_folder_and_says_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    monkeypatch.setattr(jars, "JARS", {name: hashlib.sha256(b"").hexdigest() for name in JARS})
    for name in JARS:
        (tmp_path / name).touch()
    arguments = ["setup", "--jars", str(tmp_path), "--cache", str(tmp_path / "cache")]
    code = main(arguments)
    if code == EXIT_UNAVAILABLE:
        pytest.skip(capsys.readouterr().err)
    assert code == EXIT_OK
    assert f"4 jars for Spark 4.0.4 in {tmp_path / 'cache'}" in capsys.readouterr().out


def test_progress_is_one_line_that_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    times = iter([10.0, 10.05, 11.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    progress = Progress(stream)
    for text in ("100 records", "101 records", "5 done"):
        progress.say(text)
    progress.done()
    assert stream.getvalue() == "\r100 records\r5 done     \r      \r"
