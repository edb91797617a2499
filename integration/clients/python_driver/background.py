"""Members and loads that work in threads of their own between the commands."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Protocol

PartitionList = list[list[Any]]
"""`[[topic, partition]]`"""


class Journal:
    """What a member has to tell, until it is told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[list[Any]] = []
        self._events: list[list[Any]] = []
        self._errors: list[str] = []
        self._assignment: PartitionList = []

    def records(self, records: Iterable[list[Any]]) -> None:
        """`[topic, partition, offset, value]` each."""
        with self._lock:
            self._records += records

    def event(self, kind: str, partitions: PartitionList) -> None:
        """A rebalance callback."""
        with self._lock:
            self._events.append([kind, partitions])

    def error(self, name: str) -> None:
        """Something the application was told."""
        with self._lock:
            self._errors.append(name)

    def assignment(self, partitions: PartitionList) -> None:
        """The client's own view, as it is now."""
        with self._lock:
            self._assignment = partitions

    def take(self) -> dict[str, Any]:
        """All that is new, and the assignment."""
        with self._lock:
            told = {
                "records": self._records,
                "assignment": self._assignment,
                "events": self._events,
                "errors": self._errors,
            }
            self._records, self._events, self._errors = [], [], []
            return told


class Consumer(Protocol):
    """A consumer of a client library that is polled; used from one thread."""

    def poll(self) -> list[list[Any]]:
        """What has come within a short time, as `Journal.records` wants it. An exception ends the member."""
        ...

    def assignment(self) -> PartitionList:
        """The client's own view."""
        ...

    def commit(self) -> None:
        """Synchronously, behind everything polled."""
        ...

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Polls go on from there."""
        ...

    def close(self) -> None:
        """Leave and close."""
        ...


class PolledMember:
    """A consumer and the thread that polls it. What else is to be done with it is done there, between polls."""

    def __init__(self, make: Callable[[], Consumer], journal: Journal, error_name: Callable[[Exception], str]) -> None:
        """`make` is called in the thread: making a consumer may take its time."""
        self._make = make
        self._journal = journal
        self._error_name = error_name
        self._asked: queue.SimpleQueue[tuple[Callable[[Consumer], None], Future[None]]] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ask(self, what: Callable[[Consumer], None]) -> None:
        """Do it between two polls, and wait. Raises what it raises."""
        done: Future[None] = Future()
        self._asked.put((what, done))
        done.result()

    def stop(self, *, commit: bool) -> None:
        """Poll no more, commit if asked to, close."""

        def end(consumer: Consumer) -> None:
            self._stopping = True
            if commit:
                consumer.commit()
            consumer.close()

        self.ask(end)
        self._thread.join()

    def _run(self) -> None:
        consumer = self._make()
        alive = True
        while not self._stopping:
            if alive:
                try:
                    self._journal.records(consumer.poll())
                    self._journal.assignment(consumer.assignment())
                except Exception as error:
                    self._journal.error(self._error_name(error))
                    alive = False
            self._do_what_was_asked(consumer, wait=not alive)

    def _do_what_was_asked(self, consumer: Consumer, *, wait: bool) -> None:
        while not self._stopping:
            try:
                what, done = self._asked.get(block=wait)
            except queue.Empty:
                return
            try:
                what(consumer)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)


class Load:
    """Numbers sent at a steady rate until it is stopped."""

    def __init__(
        self, send: Callable[[int, Callable[[bool], None]], None], finish: Callable[[], None], rate: int
    ) -> None:
        """`send` hands a number to the producer and calls back with whether it was acknowledged; `finish` flushes."""
        self._send = send
        self._finish = finish
        self._rate = rate
        self._acknowledged: list[int] = []
        self._failed: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, list[int]]:
        """Wait for what is under way."""
        self._stopping.set()
        self._thread.join()
        self._finish()
        return {"acknowledged": self._acknowledged, "failed": self._failed}

    def _run(self) -> None:
        began = time.monotonic()
        number = 0
        while not self._stopping.wait(max(0.0, began + number / self._rate - time.monotonic())):
            self._send_one(number)
            number += 1

    def _send_one(self, number: int) -> None:
        def done(is_acknowledged: bool) -> None:
            (self._acknowledged if is_acknowledged else self._failed).append(number)

        try:
            self._send(number, done)
        except Exception:
            done(False)
