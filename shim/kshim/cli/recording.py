"""`kshim serve --record`: the recording of a broker, its file and what the log says of it."""

from __future__ import annotations

from importlib.metadata import version

from kshim.cli.exit_codes import EXIT_UNAVAILABLE, CommandError
from kshim.cli.log import Log
from kshim.recording.file import RecordingFile
from kshim.recording.recorder import Recorder
from kshim.server.clock import GroupClock


class Recording:
    """A recording to `path`, by the clock of the server. When it ends early the broker goes on. Raises CommandError."""

    def __init__(self, path: str, max_bytes: int, clock: GroupClock, log: Log) -> None:

        def on_end(why: str) -> None:
            log.caution("recording_ended", f"The recording in {path} has ended: {why}", path=path)

        try:
            self._file = RecordingFile(path)
        except FileExistsError:
            sentence = f"--record: {path} is not empty; give another name, a recording never replaces a file"
            raise CommandError(sentence, EXIT_UNAVAILABLE) from None
        except OSError as error:
            raise CommandError(f"--record: cannot write {path}: {error.strerror}", EXIT_UNAVAILABLE) from None
        self.recorder = Recorder(
            self._file.write,
            now=clock.now,
            real_ms=lambda: clock.now().mono_ms,
            on_end=on_end,
            max_bytes=max_bytes,
            version=version("kshim"),
        )
        log.note("recording", f"Recording to {path}", path=path)

    def close(self) -> None:
        """End it, and close its file."""
        self.recorder.close()
        self._file.close()
