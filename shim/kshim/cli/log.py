"""The log on stderr: lines in the format of Kafka's log, or JSON objects. `logging` is not used because of its import time.

Characters that are not printable are escaped, so that no client can forge a line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TextIO

from kshim.coordinator.step import Event
from kshim.partitions.partition import Partition
from kshim.storage.log import LogError
from kshim.wording import counted, escaped

if TYPE_CHECKING:
    from kshim.cli.options import LogFormat
    from kshim.cli.stderr import UnreadPipe
    from kshim.history.coordinator_lines import Line


_BURST: Final = 20
"""Closed connections that are logged in one second; further ones are counted, so that a scanner does not fill a disk."""

_REPEAT_MS: Final = 10_000
"""How long a storage error that comes again is only counted: a full disk fails every write."""
_STORAGE_ERRORS: Final = 100
"""How many different ones are remembered."""


class Log:
    """Writes to `stream` and never raises because of it. Also the server's `ServerLog`.

    `wall_ms()` stamps what has no time of its own; events carry theirs. Events of coordinators in a turn of the server are
    written when its answers are sent, before anything else that is written meanwhile.
    """

    def __init__(
        self,
        stream: TextIO | UnreadPipe,
        log_format: LogFormat,
        *,
        verbosity: int = 0,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.verbosity = verbosity
        self.node_id = -1
        self.leader_of: Callable[[str, int], int] | None = None
        """The leader of a partition of a topic, if there are several nodes."""
        self._stream = stream
        self._wall_ms = wall_ms
        self._write: Callable[[int, str, str, str, dict[str, Any]], None]
        self._write = self._write_json if log_format == "json" else self._write_text
        self._is_json = log_format == "json"
        self._line_of: Callable[[Event], Line | None] | None = None
        self._is_in_turn = False
        self._held: list[Event] = []  # of this turn, not written yet
        self._lines: list[str] | None = None  # of those, while they are worded
        self._second = 0
        self._stamp = ""  # of the second of the last line: most lines come many a second
        self._stamp_s = -1
        self._closed_count = 0
        self._storage_errors: dict[str, tuple[int, int]] = {}  # when it was written last, how often it came since

    # ---------------------------------------------------------------- from the command

    def note(self, event: str, sentence: str, **fields: Any) -> None:
        """Log information. `event` is its keyword and `fields` its fields in the JSON format."""
        self._write(self._wall_ms(), "INFO", event, sentence, fields)

    def caution(self, event: str, sentence: str, **fields: Any) -> None:
        """Log a warning."""
        self._write(self._wall_ms(), "WARN", event, sentence, fields)

    def detail(self, event: str, sentence: str, **fields: Any) -> None:
        """Log details, with `-v` only."""
        if self.verbosity:
            self._write(self._wall_ms(), "DEBUG", event, sentence, fields)

    # ---------------------------------------------------------------- from the coordinators

    def coordinator_event(self, event: Event) -> None:
        """One event of a coordinator; `Cluster.on_event`."""
        if event.is_routine and not self.verbosity:
            return
        if self._is_in_turn:
            self._held.append(event)
        else:
            self._write_event(event)

    def _write_event(self, event: Event) -> None:
        if self._is_json:
            level = "DEBUG" if event.is_routine else "INFO"
            from kshim.cli.event_fields import event_fields, event_keyword

            self._write_json(event.now.wall_ms, level, event_keyword(type(event)), "", event_fields(event))
            return
        if self._line_of is None:  # what its first line costs is not part of the start
            from kshim.history.lines import line_of

            self._line_of = line_of
        line = self._line_of(event)
        if line is not None:
            node_id = self.node_id if self.leader_of is None else self.leader_of(event.topic, event.partition)
            prefix = f"[{event.coordinator} id={node_id} topic={event.topic} partition={event.partition}] "
            self._write_text(event.now.wall_ms, line.level, "", prefix + line.text, {})

    def turn_begins(self) -> None:
        """See `ServerLog.turn_begins`."""
        self._is_in_turn = True

    def turn_ends(self) -> None:
        """See `ServerLog.turn_ends`."""
        self._is_in_turn = False
        if self._held:
            self._write_held()

    def _write_held(self) -> None:
        """Write the events of this turn, all in one go."""
        held, self._held = self._held, []
        lines: list[str] = []
        self._lines = lines
        for event in held:
            try:
                self._write_event(event)
            except Exception as error:
                self.failed(f"logging {type(event).__name__}", error)
        self._lines = None
        self._put("".join(lines))

    # ---------------------------------------------------------------- from the server and the broker

    def closing(self, client_host: str, reason: str) -> None:
        """See `ServerLog.closing`."""
        now_ms = self._wall_ms()
        if now_ms // 1000 != self._second:
            unlogged = self._closed_count - _BURST
            self._second, self._closed_count = now_ms // 1000, 0
            if unlogged > 0:
                self.note("connections_closed", f"Closed {unlogged} further connections", count=unlogged)
        self._closed_count += 1
        if self._closed_count <= _BURST:
            host = client_host.removeprefix("/")
            self.note(
                "connection_closed", f"Closed the connection of {host}: {reason}", host=client_host, reason=reason
            )

    def failed(self, what: str, error: BaseException) -> None:
        """See `ServerLog.failed`; also `Cluster.on_defect` through `defect`."""
        import traceback

        lines = "".join(traceback.format_exception(error))
        sentence = f"Failed while {what}: {type(error).__name__}: {error}"
        self._write(self._wall_ms(), "ERROR", "failed", sentence, {"what": what, "traceback": lines})

    def defect(self, error: BaseException, request: object) -> None:
        """See `Cluster.on_defect`: an unexpected exception, or a log that could not be written."""
        if isinstance(error, LogError):
            self._storage_failed(error)
        else:
            is_log = isinstance(request, Partition)
            self.failed(f"storing {request}" if is_log else f"handling {type(request).__name__}", error)

    def _storage_failed(self, error: LogError) -> None:
        """Log a storage error, at most once in ten seconds for each error, whichever file it concerns."""
        now_ms = self._wall_ms()
        text = str(error)
        cause = error.__cause__
        what = str(cause.strerror) if isinstance(cause, OSError) else text
        written_ms, count = self._storage_errors.get(what, (0, 0))
        if now_ms - written_ms < _REPEAT_MS:
            self._storage_errors[what] = written_ms, count + 1
            return
        if len(self._storage_errors) >= _STORAGE_ERRORS:
            self._storage_errors.clear()
        self._storage_errors[what] = now_ms, 0
        again = f" (repeated {counted(count, 'time')} since it was logged last)" if count else ""
        self._write(now_ms, "ERROR", "storage_error", f"Storage error: {text}{again}", {"count": count + 1})

    # ---------------------------------------------------------------- the two forms

    def _write_text(self, at_ms: int, level: str, event: str, sentence: str, fields: dict[str, Any]) -> None:
        seconds, ms = divmod(at_ms, 1000)
        if seconds != self._stamp_s:
            self._stamp_s, self._stamp = seconds, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        text = f"[{self._stamp},{ms:03}] {level} {escaped(sentence)}\n"
        if traceback := fields.get("traceback"):
            text += "".join(f"    {escaped(line)}\n" for line in traceback.splitlines())
        self._emit(text)

    def _write_json(self, at_ms: int, level: str, event: str, sentence: str, fields: dict[str, Any]) -> None:
        import json

        seconds, ms = divmod(at_ms, 1000)
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03}Z"
        document = {"at": at, "at_ms": at_ms, "level": level, "event": event, **fields}
        if sentence:
            document["message"] = sentence
        self._emit(json.dumps(document) + "\n")

    def _emit(self, text: str) -> None:
        if self._lines is not None:
            self._lines.append(text)
            return
        if self._held:
            self._write_held()
        self._put(text)

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the reader has gone; the broker continues
            return
