"""A log that nobody reads does not stop the broker."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from kshim.cli.log import Log
from kshim.cli.options import LogFormat
from kshim.cli.stderr import UnreadPipe, log_stream

LINE = "x" * 99 + "\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(write_end, "w") as stream:
        yield read_end, stream
    os.close(read_end)


def everything_in(read_end: int) -> str:
    data = b""
    while select.select([read_end], [], [], 0)[0] and (chunk := os.read(read_end, 1 << 20)):
        data += chunk
    return data.decode()


@pytest.mark.parametrize(
    ("log_format", "confession"),
    [
        ("text", "(dropped {} lines: this pipe is not being read)"),
        ("json", '{{"level": "WARN", "event": "lines_dropped", "count": {}}}'),
    ],
)
def test_a_full_pipe_loses_lines_and_says_how_many_once_it_is_read(
    pipe: tuple[int, TextIO], log_format: LogFormat, confession: str
) -> None:
    read_end, stream = pipe
    log = log_stream(stream, log_format)
    assert isinstance(log, UnreadPipe)
    for _ in range(10_000):  # far more than a pipe holds; a blocking write would never come back
        log.write(LINE)
    kept = everything_in(read_end)
    assert set(kept.splitlines()) == {LINE.rstrip()}
    log.write("after\n")
    dropped = 10_000 - len(kept.splitlines())
    assert everything_in(read_end) == confession.format(dropped) + "\nafter\n"


def test_several_lines_at_once_are_cut_between_lines_and_counted_when_dropped(pipe: tuple[int, TextIO]) -> None:
    read_end, stream = pipe
    log = log_stream(stream, "text")
    for _ in range(100):
        log.write(LINE * 100)
    kept = everything_in(read_end)
    assert set(kept.splitlines()) == {LINE.rstrip()}
    log.write("after\n")
    dropped = 10_000 - len(kept.splitlines())
    assert everything_in(read_end) == f"(dropped {dropped} lines: this pipe is not being read)\nafter\n"


def test_a_line_longer_than_an_atomic_write_comes_whole(pipe: tuple[int, TextIO]) -> None:
    read_end, stream = pipe
    text = "y" * 10_000 + "\n"
    log_stream(stream, "text").write(text)
    assert everything_in(read_end) == text


def test_a_file_is_written_as_it_is(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        assert log_stream(stream, "text") is stream


def test_a_pipe_without_a_reader_is_no_error_of_the_log() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        log = Log(log_stream(stream, "text"), "text", verbosity=0)
        log.note("listening", "Listening")
