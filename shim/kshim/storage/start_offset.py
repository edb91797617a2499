"""The file that says where a log begins when that is inside a segment."""

from __future__ import annotations

import os

from kshim.storage.log import LogError
from kshim.storage.os_calls import OsCalls

START_OFFSET_FILE = "log-start-offset"


def write_start_offset(folder: str, offset: int, calls: OsCalls) -> None:
    """Replace the file. Raises LogError."""
    path = os.path.join(folder, START_OFFSET_FILE)
    try:
        calls.write_whole_file(path, b"0\n%d\n" % offset)
    except OSError as error:
        raise LogError(f"cannot write {path}: {error.strerror or error}") from error


def read_start_offset(folder: str) -> int:
    """What the file says. Raises LogError."""
    path = os.path.join(folder, START_OFFSET_FILE)
    try:
        with open(path, "rb") as file:
            version, offset = file.read().split()
        if version != b"0":
            raise LogError(f"{path} has version {version!r}")
        return int(offset)
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise LogError(f"{path} is damaged: {error}") from error
