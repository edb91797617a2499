"""Whom the server waits for no longer: the idle, the unauthenticated, the slow to take answers or to send requests."""

from __future__ import annotations

from typing import Final

import trio

from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.loop import Loop
from kshim.server.peer import Peer

_IDLE_SLICES: Final = 16
_IDLE_SLICE_PEERS: Final = 512
_LOOK_MS: Final = 1_000
"""The interval of checks for slow peers, while there are any."""


class ConnectionTimeouts:
    """Closes peers of a loop by the real clock. Who has nothing to fear costs nothing: there is no timer a peer."""

    def __init__(self, peers: Loop, limits: ServerLimits, real_clock: GroupClock, log: ServerLog) -> None:
        self._peers = peers
        self._limits = limits
        self._real_clock = real_clock
        self._log = log
        self._has_newcomer = trio.Event()
        self._has_slow = trio.Event()
        self._has_line = trio.Event()
        peers.request_memory.on_line = self._note_line
        peers.on_newcomer = self._note_newcomer
        peers.on_slow = self._note_slow

    async def run(self) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_idle)
            nursery.start_soon(self._close_unready)
            nursery.start_soon(self._cut_slow_readers)
            nursery.start_soon(self._cut_slow_senders)

    def _note_newcomer(self) -> None:
        self._has_newcomer.set()

    def _note_slow(self) -> None:
        """Close the slowest above twice the limit; below that the next check is soon enough."""
        self._has_slow.set()
        slow = self._peers.slow
        while self._peers.slow_bytes > 2 * self._limits.unsent_total_max_bytes and len(slow) > 1:
            first = next(iter(slow))
            unsent_bytes = first.connection.unsent_bytes
            self._close(first, f"it left {unsent_bytes} bytes of responses unread while memory was exhausted")

    def _note_line(self) -> None:
        self._has_line.set()

    async def _close_idle(self) -> None:
        """Check all connections every sixteenth of the limit, some hundred at a time."""
        idle_ms = self._limits.connections_max_idle_ms
        if idle_ms < 0:
            return
        while True:
            await self._sleep(max(idle_ms // _IDLE_SLICES, 1))
            for count, peer in enumerate(list(self._peers.peers.values()), start=1):
                if count % _IDLE_SLICE_PEERS == 0:
                    await trio.lowlevel.checkpoint()
                connection = peer.connection
                is_silent = self._real_clock.now().mono_ms - peer.active_ms >= idle_ms
                # A peer that waits for a response is not idle, unless it is not being read: its end would go unnoticed.
                if is_silent and (not connection.is_parked or connection.is_deaf):
                    self._close(peer, f"idle for more than {idle_ms} ms")

    async def _close_unready(self) -> None:
        """They came in order, and all have the same time, so only the first is waited for."""
        max_ms = self._limits.authentication_max_ms
        newcomers = self._peers.newcomers
        while True:
            while not newcomers:
                self._has_newcomer = trio.Event()
                await self._has_newcomer.wait()
            peer, since_ms = next(iter(newcomers.items()))
            await self._real_clock.sleep_until(since_ms + max_ms)
            if newcomers.pop(peer, None) is not None and not peer.connection.is_ready:
                what = "authentication" if peer.connection.has_open_layer else "the TLS handshake"
                self._close(peer, f"{what} took more than {max_ms} ms")

    async def _cut_slow_readers(self) -> None:
        slow_ms = self._limits.slow_reader_ms
        while True:
            if not self._peers.slow:
                self._has_slow = trio.Event()
                await self._has_slow.wait()
            await self._sleep(min(_LOOK_MS, slow_ms))
            now_ms = self._real_clock.now().mono_ms
            # The first has been slow for longest: who becomes slow goes to the end.
            for peer, (since_ms, _) in list(self._peers.slow.items()):
                unsent_bytes = peer.connection.unsent_bytes
                if now_ms - since_ms >= slow_ms:
                    self._close(peer, f"it left {unsent_bytes} bytes of responses unread for {now_ms - since_ms} ms")
                elif self._peers.slow_bytes > self._limits.unsent_total_max_bytes:
                    self._close(peer, f"it left {unsent_bytes} bytes of responses unread while memory was short")
                else:
                    break

    async def _cut_slow_senders(self) -> None:
        """While connections wait for memory, close those that keep it for one request longer than `slow_sender_ms`.

        Those that wait themselves, too: incomplete requests that fill the memory together would all be waiting.
        """
        request_memory, slow_ms = self._peers.request_memory, self._limits.slow_sender_ms
        while True:
            if not request_memory.has_line:
                self._has_line = trio.Event()
                await self._has_line.wait()
            now_ms = self._real_clock.now().mono_ms
            for peer in list(self._peers.peers.values()):
                held_ms = now_ms - peer.connection.held_since_ms
                if peer.connection.request_memory_bytes and held_ms >= slow_ms:
                    self._close(peer, f"it took {held_ms} ms to send a request while memory was short")
            await self._sleep(min(_LOOK_MS, slow_ms))

    def _close(self, peer: Peer, reason: str) -> None:
        if not peer.connection.is_closed:
            self._log.closing(peer.connection.client_host, reason)
            self._peers.close(peer)

    async def _sleep(self, ms: int) -> None:
        await self._real_clock.sleep_until(self._real_clock.now().mono_ms + ms)
