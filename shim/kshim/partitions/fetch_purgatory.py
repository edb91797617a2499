"""Fetches that wait for data: found by partition, woken when enough bytes are there or their time is over."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from operator import attrgetter

_FEW_DEADLINES = 64
_number = attrgetter("number")


class WaitingFetch:
    """One parked Fetch. `answer()` reads again and replies; it is called at most once, and None afterwards.

    `reads_committed`: it waits for bytes below the last stable offset. `is_over`: its time is. `follows`: the wait that goes on
    with this one, as there was too little; it keeps its place among those that wait.
    """

    __slots__ = (
        "answer",
        "connection",
        "deadline_ms",
        "is_over",
        "missing_bytes",
        "number",
        "partitions",
        "reads_committed",
    )

    def __init__(
        self,
        connection: object,
        partitions: Iterable[object],
        missing_bytes: int,
        deadline_ms: int,
        answer: Callable[[], None],
        *,
        reads_committed: bool = False,
        follows: WaitingFetch | None = None,
    ) -> None:
        self.connection = connection
        self.partitions = tuple(partitions)
        self.missing_bytes = missing_bytes
        self.deadline_ms = deadline_ms
        self.answer: Callable[[], None] | None = answer
        self.reads_committed = reads_committed
        self.is_over = False
        self.number: int = 0 if follows is None else follows.number


class FetchPurgatory:
    """All waiting Fetches of a cluster. Deadlines are in ms of the monotonic clock.

    `len()` is how many there are. `on_fired` is called with each whose time is over, by the partitions it waits for.
    """

    def __init__(self, *, on_fired: Callable[[tuple[str, ...]], None] = lambda key: None) -> None:
        self._on_fired = on_fired
        self._by_partition: dict[object, dict[WaitingFetch, None]] = {}
        self._by_connection: dict[object, WaitingFetch] = {}
        # A heap by deadline. A wait that ended early stays in it, without its answer, until its turn or until such
        # are the most.
        self._deadlines: list[tuple[int, int, WaitingFetch]] = []
        self._sequence = 0
        self._is_held = False
        self._held: dict[WaitingFetch, None] = {}

    def __len__(self) -> int:
        return len(self._by_connection)

    def add(self, wait: WaitingFetch) -> None:
        """Park a Fetch. A connection has at most one: it handles one request at a time."""
        assert wait.connection not in self._by_connection, "a second Fetch waits on one connection"
        for partition in wait.partitions:
            self._by_partition.setdefault(partition, {})[wait] = None
        self._by_connection[wait.connection] = wait
        self._sequence += 1
        wait.number = wait.number or self._sequence
        if len(self._deadlines) > _FEW_DEADLINES + 2 * len(self._by_connection):
            self._deadlines = [entry for entry in self._deadlines if entry[2].answer is not None]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (wait.deadline_ms, self._sequence, wait))

    def appended(self, partition: object, size_bytes: int, stable_bytes: int) -> None:
        """Records of `size_bytes` are there, and `stable_bytes` more below the last stable offset.

        The Fetches that now have their minimum are answered.
        """
        waits = self._by_partition.get(partition)
        if not waits:
            return
        ready = []
        for wait in waits:
            wait.missing_bytes -= stable_bytes if wait.reads_committed else size_bytes
            if wait.missing_bytes <= 0:
                ready.append(wait)
        ready.sort(key=_number)
        if self._is_held:
            self._held.update(dict.fromkeys(ready))
        else:
            for wait in ready:
                self._finish(wait)

    def hold(self) -> None:
        """A request begins: as in Kafka, whoever waits for records sees all that it appends, to any partition, or nothing."""
        self._is_held = True

    def let_go(self) -> None:
        """The request is done: answer those that have their minimum now."""
        self._is_held = False
        if self._held:
            held, self._held = self._held, {}
            for wait in held:
                self._finish(wait)

    def release(self, partition: object) -> None:
        """The partition is going away or changed at its root: answer all that wait on it now."""
        for wait in sorted(self._by_partition.get(partition, ()), key=_number):
            self._finish(wait)

    def cancel(self, connection: object) -> None:
        """The client is gone: drop its wait without an answer."""
        wait = self._by_connection.get(connection)
        if wait is not None:
            self._take(wait)

    def next_deadline(self) -> int | None:
        """When the next wait is over, or None."""
        while self._deadlines and self._deadlines[0][2].answer is None:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def advance(self, now_ms: int) -> None:
        """Answer every Fetch whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            wait = heapq.heappop(self._deadlines)[2]
            if wait.answer is not None:
                wait.is_over = True
                self._on_fired(("fetch", *map(str, wait.partitions)))
                self._finish(wait)

    def _finish(self, wait: WaitingFetch) -> None:
        """Answer, unless that was done or the client went away while others were answered."""
        answer = self._take(wait)
        if answer is not None:
            answer()

    def _take(self, wait: WaitingFetch) -> Callable[[], None] | None:
        """Remove a wait and everything it holds on to."""
        answer, wait.answer = wait.answer, None
        if answer is None:
            return None
        for partition in wait.partitions:
            waits = self._by_partition.get(partition)
            if waits is not None:
                waits.pop(wait, None)
                if not waits:
                    del self._by_partition[partition]
        wait.partitions = ()
        del self._by_connection[wait.connection]
        return answer
