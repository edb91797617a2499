"""The memory of Spark's processes while something runs."""

from __future__ import annotations

import contextlib
import threading
from typing import Final

import psutil

_LOOK_S: Final = 0.5


class Watch:
    """The most that the processes below this one held within a `with`, looked at all the time.

    `jvm_bytes`; `workers_bytes`, of all Python workers together, what forks share counted once; `largest_worker_bytes`, of one of
    them with what it shares.
    """

    def __init__(self) -> None:
        self.jvm_bytes = self.workers_bytes = self.largest_worker_bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            jvm, workers, largest = 0, 0, 0
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    # What a process shares takes long to find out, of the JVM a fifth of a core: it is looked at from outside.
                    if "java" in process.name():
                        jvm += process.memory_info().rss
                    elif "python" in process.name():
                        memory = process.memory_full_info()
                        workers += memory.uss
                        largest = max(largest, memory.rss)
            self.jvm_bytes = max(self.jvm_bytes, jvm)
            self.workers_bytes = max(self.workers_bytes, workers)
            self.largest_worker_bytes = max(self.largest_worker_bytes, largest)
