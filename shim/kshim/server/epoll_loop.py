"""The Linux loop: one trio task that drains its own epoll set, for all connections.

trio sees a single file descriptor; a wake-up handles everything that is ready, at the cost of one task switch.
"""

from __future__ import annotations

import os
import select
import sys

import trio
from trio.lowlevel import checkpoint, wait_readable

from kshim.coordinator.step import Now
from kshim.server.connection import AGAIN, GONE, READ, WRITE
from kshim.server.loop import Loop
from kshim.server.peer import Peer

assert sys.platform == "linux"

_EPOLLIN = select.EPOLLIN
_MAX_EVENTS = 256
_DRAIN_MS = 2
"""How long one wake-up may go on finding more before trio's other tasks get their turn."""
_DRAIN_ROUNDS = 64
"""The same where the clock stands still."""
_WAIT_S = 0.001
"""How long it waits for the next request without trio, where it may: a pass of trio costs as much as a small request."""


class EpollLoop(Loop):
    """Level-triggered epoll. A peer's registered events change only when its interest does, which is seldom."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_woken = False
        self._is_running = False
        self._scheduled: list[Peer] = []
        try:
            self._epoll.register(self._wake_fd, _EPOLLIN)
            task_status.started()
            epoll_fd = self._epoll.fileno()
            while True:
                if self._scheduled:
                    await checkpoint()
                else:
                    await wait_readable(epoll_fd)
                self._drain(may_wait=self._may_wait)
        finally:
            self.close_all()
            os.close(self._wake_fd)
            self._epoll.close()

    def wake(self, peer: Peer) -> None:
        self._schedule(peer)
        if not self._is_running and not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    def serve_ready(self) -> None:
        self._drain(may_wait=False)

    def send_ready(self) -> None:
        if self._scheduled:
            now = self._clock.now()
            self._is_running = True
            try:
                self._serve([], now, now.mono_ms)
            finally:
                self._is_running = False

    def close(self, peer: Peer) -> None:
        if not peer.connection.is_closed:
            self._epoll.unregister(peer.sock)
            self._forget(peer)

    def _started(self, peer: Peer) -> None:
        self._epoll.register(peer.sock, READ)

    def _schedule(self, peer: Peer) -> None:
        if not peer.is_scheduled:
            peer.is_scheduled = True
            self._scheduled.append(peer)

    def _drain(self, *, may_wait: bool) -> None:
        """Handle what is ready until nothing is, or the others' turn has come."""
        deadline_ms = None
        wait_s = 0.0
        for _ in range(_DRAIN_ROUNDS):
            events = self._epoll.poll(0 if self._scheduled else wait_s, _MAX_EVENTS)
            if not events and not self._scheduled:
                return
            now = self._clock.now()
            if deadline_ms is None:
                deadline_ms = now.mono_ms + _DRAIN_MS
            self.turns += 1
            self._log.turn_begins()
            self._is_running = True
            try:
                self._serve(events, now, now.mono_ms)
            finally:
                self._is_running = False
                self._log.turn_ends()
            self._after_turn()
            if now.mono_ms >= deadline_ms:
                return
            wait_s = _WAIT_S if may_wait and not self._router.background_tasks.unfinished_count else 0.0

    def _serve(self, events: list[tuple[int, int]], now: Now, real_ms: int) -> None:
        peers = self.peers
        for fd, mask in events:
            peer = peers.get(fd)
            if peer is None:
                self._woken(fd)
            elif mask == _EPOLLIN:
                # A peer with frames left to handle is on the list below; it reads again when they are done.
                if not peer.is_scheduled:
                    wants = peer.on_readable(now, real_ms)
                    if wants != peer.interest:
                        self._change(peer, wants)
            else:
                self._serve_unusual(peer, mask, now, real_ms)
        scheduled = self._scheduled
        if scheduled:
            self._scheduled = []
            for peer in scheduled:
                peer.is_scheduled = False
                self._change(peer, peer.resume(now, real_ms))  # GONE, if it was closed meanwhile

    def _serve_unusual(self, peer: Peer, mask: int, now: Now, real_ms: int) -> None:
        """EPOLLOUT, or an error or hang-up, which the kernel reports whatever was asked for."""
        if peer.is_scheduled:
            return
        if mask & ~WRITE and peer.interest & READ:
            self._change(peer, peer.on_readable(now, real_ms))
        elif peer.interest & WRITE:
            self._change(peer, peer.resume(now, real_ms))
        else:
            self.close(peer)  # hung up while parked or without room: no one is left to answer

    def _woken(self, fd: int) -> None:
        if fd == self._wake_fd:
            os.eventfd_read(fd)
            self._is_woken = False

    def _change(self, peer: Peer, wants: int) -> None:
        if wants == GONE:
            self.close(peer)
            return
        if wants & AGAIN:
            self._schedule(peer)
            return  # its events stay: they are few, and ignored meanwhile
        if wants != peer.interest:
            self._epoll.modify(peer.sock, wants)
            peer.interest = wants
