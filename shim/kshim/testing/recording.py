"""`Kshim(record=FILE)`: the recording of brokers for tests."""

from __future__ import annotations

import logging
from importlib.metadata import version

from kshim.recording.file import RecordingFile
from kshim.recording.recorder import Recorder
from kshim.server.clock import GroupClock

_LOG = logging.getLogger("kshim")


class Recording:
    """A recording to `path`, by the clock of the server. Raises OSError: FileExistsError when the file is not empty."""

    def __init__(self, path: str, clock: GroupClock) -> None:
        self._file = RecordingFile(path)
        self.recorder = Recorder(
            self._file.write,
            now=clock.now,
            real_ms=lambda: clock.now().mono_ms,
            on_end=lambda why: _LOG.warning("The recording in %s has ended: %s", path, why),
            version=version("kshim"),
        )

    def close(self) -> None:
        """End it, and close its file."""
        self.recorder.close()
        self._file.close()
