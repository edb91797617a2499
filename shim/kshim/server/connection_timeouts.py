"""Whom the server waits for no longer: the idle, the unauthenticated, the slow to take answers or to send requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kshim.coordinator.step import Now
from kshim.scheduling.pace import Pace
from kshim.server.clock import GroupClock
from kshim.server.connection import ServerLog
from kshim.server.limits import ServerLimits
from kshim.server.loop import Loop
from kshim.server.peer import Peer

_NEVER: Final = 1 << 62
_IDLE_SLICES: Final = 16
_IDLE_SLICE_PEERS: Final = 512
_LOOK_MS: Final = 1_000
"""The interval of checks for slow peers, while there are any."""


class ConnectionTimeouts:
    """Closes peers of a loop when their time is over. Who has nothing to fear costs nothing: there is no timer a peer.

    Call `fire` when `next_deadline` has come.
    """

    def __init__(self, peers: Loop, limits: ServerLimits, clock: GroupClock, log: ServerLog, pace: Pace) -> None:
        self.on_fired: Callable[[tuple[str, ...]], None] = lambda key: None
        """Called with each connection that is closed, by its kind of limit and the client's host."""
        self.on_earlier: Callable[[], None] = lambda: None
        """Called when `next_deadline` may have become earlier."""
        self._peers = peers
        self._limits = limits
        self._clock = clock
        self._pace = pace
        self._log = log
        self._idle_ms = _NEVER if limits.connections_max_idle_ms < 0 else self._now_ms() + self._idle_interval_ms
        self._to_check: list[Peer] = []  # what is left of the check for idle ones that has begun
        self._slow_ms = self._line_ms = _NEVER
        peers.request_memory.on_line = self._note_line
        peers.on_newcomer = self._note_newcomer
        peers.on_slow = self._note_slow

    def next_deadline(self) -> int | None:
        """When `fire` is due: ms on the clock; None: nobody has anything to fear."""
        since_ms = next(iter(self._peers.newcomers.values()), _NEVER)
        first_ms = min(self._idle_ms, since_ms + self._limits.authentication_max_ms, self._slow_ms, self._line_ms)
        return None if first_ms >= _NEVER else first_ms

    def fire(self, now: Now) -> None:
        """Close those whose time is over."""
        now_ms = now.mono_ms
        if self._idle_ms <= now_ms:
            self._close_idle(now_ms)
        self._close_unready(now_ms)
        if self._slow_ms <= now_ms:
            self._cut_slow_readers(now_ms)
        if self._line_ms <= now_ms:
            self._cut_slow_senders(now_ms)

    def _note_newcomer(self) -> None:
        self.on_earlier()

    def _note_slow(self) -> None:
        """Close the slowest above twice the limit; below that the next check is soon enough."""
        if self._slow_ms == _NEVER:
            self._slow_ms = self._now_ms() + min(_LOOK_MS, self._limits.slow_reader_ms)
            self.on_earlier()
        slow = self._peers.slow
        while self._peers.slow_bytes > 2 * self._limits.unsent_total_max_bytes and len(slow) > 1:
            first = next(iter(slow))
            unsent_bytes = first.connection.unsent_bytes
            self._close(
                first, "slow_client", f"it left {unsent_bytes} bytes of responses unread while memory was exhausted"
            )

    def _note_line(self) -> None:
        if self._line_ms == _NEVER:
            self._line_ms = self._now_ms()
            self.on_earlier()

    @property
    def _idle_interval_ms(self) -> int:
        return max(self._limits.connections_max_idle_ms // _IDLE_SLICES, 1)

    def _close_idle(self, now_ms: int) -> None:
        """Check all connections every sixteenth of the limit, some hundred at a time."""
        max_ms = self._limits.connections_max_idle_ms
        if not self._to_check:
            self._to_check = list(self._peers.peers.values())
        checked, self._to_check = self._to_check[:_IDLE_SLICE_PEERS], self._to_check[_IDLE_SLICE_PEERS:]
        for peer in checked:
            connection = peer.connection
            is_silent = now_ms - peer.active_ms >= max_ms
            # A peer that waits for a response is not idle, unless it is not being read: its end would go unnoticed.
            if is_silent and (not connection.is_parked or connection.is_deaf):
                self._close(peer, "idle_connection", f"idle for more than {max_ms} ms")
        self._idle_ms = now_ms if self._to_check else self._pace.next_check(now_ms, self._idle_interval_ms)

    def _close_unready(self, now_ms: int) -> None:
        """They came in order, and all have the same time, so only the first is looked at."""
        max_ms = self._limits.authentication_max_ms
        newcomers = self._peers.newcomers
        while newcomers:
            peer, since_ms = next(iter(newcomers.items()))
            if since_ms + max_ms > now_ms:
                return
            del newcomers[peer]
            if not peer.connection.is_ready:
                what = "authentication" if peer.connection.has_open_layer else "the TLS handshake"
                self._close(peer, "authentication", f"{what} took more than {max_ms} ms")

    def _cut_slow_readers(self, now_ms: int) -> None:
        slow_ms = self._limits.slow_reader_ms
        # The first has been slow for longest: who becomes slow goes to the end.
        for peer, (since_ms, _) in list(self._peers.slow.items()):
            unsent_bytes = peer.connection.unsent_bytes
            if now_ms - since_ms >= slow_ms:
                self._close(
                    peer, "slow_client", f"it left {unsent_bytes} bytes of responses unread for {now_ms - since_ms} ms"
                )
            elif self._peers.slow_bytes > self._limits.unsent_total_max_bytes:
                self._close(
                    peer, "slow_client", f"it left {unsent_bytes} bytes of responses unread while memory was short"
                )
            else:
                break
        self._slow_ms = now_ms + min(_LOOK_MS, slow_ms) if self._peers.slow else _NEVER

    def _cut_slow_senders(self, now_ms: int) -> None:
        """While connections wait for memory, close those that keep it for one request longer than `slow_sender_ms`.

        Those that wait themselves, too: incomplete requests that fill the memory together would all be waiting.
        """
        request_memory, slow_ms = self._peers.request_memory, self._limits.slow_sender_ms
        if not request_memory.has_line:
            self._line_ms = _NEVER
            return
        self._line_ms = now_ms + min(_LOOK_MS, slow_ms)
        for peer in list(self._peers.peers.values()):
            held_ms = now_ms - peer.connection.held_since_ms
            if peer.connection.request_memory_bytes and held_ms >= slow_ms:
                self._close(peer, "slow_client", f"it took {held_ms} ms to send a request while memory was short")

    def _close(self, peer: Peer, kind: str, reason: str) -> None:
        if not peer.connection.is_closed:
            self.on_fired((kind, peer.connection.client_host))
            self._log.closing(peer.connection.client_host, reason)
            self._peers.close(peer)

    def _now_ms(self) -> int:
        return self._clock.now().mono_ms
