"""Runs what the broker has to do besides answering, in slices between the turns of its peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import trio

from kshim.scheduling.background_tasks import BackgroundTask, BackgroundTasks
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog
from kshim.server.loop import Loop

_SHARE: Final = 5
"""While requests come, ordinary background tasks get a fifth of the loop's time."""
_MOST_CREDIT_MS: Final = 25
"""A pause that became longer than it had to be is made up for by shorter ones, up to this much."""
_MOST_ORDINARY: Final = 4
"""So many may have begun: one works on the loop while jobs of the others are in threads."""


class BackgroundTaskRunner:
    """Urgent background tasks at once and side by side; of the others one at a time, while jobs of a few more are in threads.

    A task that raises is reported and dropped. Slices come one after the other while no request does; while requests
    come, ordinary background tasks pause after each. `after_slice` is called after each.
    """

    def __init__(
        self,
        background_tasks: BackgroundTasks,
        peers: Loop,
        *,
        after_slice: Callable[[], None],
        real_clock: GroupClock,
        log: ServerLog,
    ) -> None:
        self._background_tasks = background_tasks
        self._peers = peers
        self._after_slice = after_slice
        self._real_clock = real_clock
        self._log = log
        self._added = trio.Event()
        self._ordinary = trio.CancelScope()
        self._owed_ms = 0.0  # of pauses
        self._counted_at_ms = real_clock.now().mono_ms
        self._lock = trio.Lock()  # of the ordinary task that works on the loop, or pauses after that

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run background tasks until `stop`, or cancelled: then every one that has begun is closed at its next yield."""
        self._background_tasks.on_task = self._wake
        async with trio.open_nursery() as urgent:
            task_status.started()
            with self._ordinary:
                async with trio.open_nursery() as nursery:
                    for _ in range(_MOST_ORDINARY):
                        nursery.start_soon(self._run_ordinary)
                    while True:
                        self._start_urgent(urgent)
                        await self._added.wait()
            self._start_urgent(urgent)

    def stop(self) -> None:
        """Let urgent background tasks end, close the ordinary one at its next yield, begin no more; `run` returns after that."""
        self._ordinary.cancel()

    def _wake(self) -> None:
        self._added.set()
        self._added = trio.Event()

    def _start_urgent(self, nursery: trio.Nursery) -> None:
        while (task := self._background_tasks.next_urgent()) is not None:
            nursery.start_soon(self._drive, task, None)

    async def _run_ordinary(self) -> None:
        turn = _Turn(self._lock)
        while True:
            while (task := self._background_tasks.next()) is not None:
                try:
                    await turn.take()
                    await self._drive(task, turn)
                finally:
                    turn.leave()
            await self._added.wait()

    async def _drive(self, task: BackgroundTask, turn: _Turn | None) -> None:
        """Do all of it. `turn` is taken, and is left to others while jobs are done; None: an urgent one needs none."""
        what = f"doing the task {getattr(task, '__name__', '')}"
        result: Any = None
        error: Exception | None = None
        try:
            while True:
                turns = self._peers.turns
                began_s = trio.current_time()
                job = task.send(result) if error is None else task.throw(error)
                took_s = trio.current_time() - began_s
                result = error = None
                self._after_slice()
                if job is None:
                    await trio.lowlevel.checkpoint()  # trio checks the sockets
                    if turn is not None:
                        await self._give_way(turns, took_s)
                    continue
                if turn is not None:
                    turn.leave()
                try:
                    result = await trio.to_thread.run_sync(job)
                except Exception as failure:
                    error = failure
                if turn is not None:
                    await turn.take()
        except StopIteration:
            pass
        except Exception as failure:
            self._log.failed(what, failure)
        finally:
            try:
                task.close()
            except Exception as failure:
                self._log.failed(what, failure)
            self._background_tasks.ended()
            self._after_slice()

    async def _give_way(self, turns: int, took_s: float) -> None:
        """When there were requests since `turns`, pause until the slice is paid for."""
        if turns == self._peers.turns:
            await trio.lowlevel.checkpoint()  # who was found ready by the one before runs in this one
            if turns == self._peers.turns:
                return
        now_ms = self._real_clock.now().mono_ms
        self._owed_ms = max(self._owed_ms - (now_ms - self._counted_at_ms), -_MOST_CREDIT_MS)
        self._owed_ms += took_s * 1_000 * _SHARE
        self._counted_at_ms = now_ms
        if self._owed_ms >= 1:  # what the clock cannot measure is paid for later
            await self._real_clock.sleep_until(now_ms + int(self._owed_ms))


class _Turn:
    """One ordinary task's right to work on the loop."""

    def __init__(self, lock: trio.Lock) -> None:
        self._lock = lock
        self._is_taken = False

    async def take(self) -> None:
        """Wait for it."""
        await self._lock.acquire()
        self._is_taken = True

    def leave(self) -> None:
        """Leave it to others, if it is taken."""
        if self._is_taken:
            self._is_taken = False
            self._lock.release()
