"""What an attack costs: the broker's memory at its peak, and how long a heartbeat of somebody else waited."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from integration.hostile.crowd import Fort, Witness

MIB = 1 << 20


class Measured:
    """`with Measured(fort, "what") as found:` prints a line at the end. `grown_bytes` is the peak over the beginning."""

    def __init__(self, fort: Fort, what: str) -> None:
        self._fort = fort
        self._what = what
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._before_bytes = fort.rss_bytes()
        self._peak_bytes = self._before_bytes
        self.outcome = ""
        """A word about what came of it, for the line."""

    @property
    def grown_bytes(self) -> int:
        """How much memory the broker took more, at most."""
        return self._peak_bytes - self._before_bytes

    def __enter__(self) -> Measured:
        self._witness = Witness(self._fort.address, in_group=True)
        self._witness.__enter__()
        self._thread.start()
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        took_s = time.monotonic() - self._began_s
        self._is_over.set()
        self._thread.join()
        self._witness.__exit__(kind, error, at)
        after = (self._fort.rss_bytes() - self._before_bytes) / MIB
        print(
            f"{self._what}: {took_s:.1f} s, memory +{self.grown_bytes / MIB:.0f} MiB at most, {after:+.0f} after, "
            f"heartbeats of another group took {self._witness.slowest_ms:.0f} ms at most{self.outcome}"
        )

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            self._peak_bytes = max(self._peak_bytes, self._fort.rss_bytes())
