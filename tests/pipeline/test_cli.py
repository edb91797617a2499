"""`kshim pipeline`: commands are loaded when asked for, and what goes wrong is a sentence and an exit code."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from kshim_pipeline.cli import COMMANDS, Command, main
from kshim_pipeline.errors import EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.kafka import client_options
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


def test_client_properties_are_read_as_java_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# a comment\n\nsecurity.protocol = SSL\nsasl.jaas.config=a b=c;\n")
    assert client_options(file) == {"security.protocol": "SSL", "sasl.jaas.config": "a b=c;"}
    with pytest.raises(PipelineError, match="Cannot read"):
        client_options(tmp_path / "none")


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
