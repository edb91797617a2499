"""How the demo's children talk to it: one JSON object a line on stdout, with `at_ms` on the wall clock."""

from __future__ import annotations

import json
import os
import sys
import threading
import time


def report(kind: str, **fields: object) -> None:
    """Write one report. Quiet once the demo is gone."""
    line = json.dumps({"kind": kind, "at_ms": time.time_ns() // 1_000_000, **fields})
    try:
        print(line, flush=True)
    except OSError:
        raise SystemExit(0) from None


LONGEST_GOODBYE_S = 5.0


class StopSignal:
    """Set when stdin ends: the demo asked for it, or is gone. The process then has a few seconds left.

    So no child outlives the demo, however that one ends.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        threading.Thread(target=self._watch, name="stdin", daemon=True).start()

    def _watch(self) -> None:
        wait_for_end_of_stdin()
        self._event.set()
        # A client whose broker has gone may try to reach it for a minute.
        time.sleep(LONGEST_GOODBYE_S)
        os._exit(1)

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s`; True when it is set."""
        return self._event.wait(timeout_s)


def wait_for_end_of_stdin() -> None:
    """Return when the process at the other end has closed it or ended."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
