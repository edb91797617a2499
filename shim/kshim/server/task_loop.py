"""The portable loop: one trio task a connection. For macOS, Windows, and wherever epoll is missing."""

from __future__ import annotations

import trio
from trio.lowlevel import checkpoint, notify_closing, wait_readable, wait_writable

from kshim.server.connection import AGAIN, GONE, READ, WRITE
from kshim.server.loop import Loop
from kshim.server.peer import Peer


class TaskLoop(Loop):
    """Waits with trio's own `wait_readable` and `wait_writable` on the raw sockets."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self.close_all()

    def wake(self, peer: Peer) -> None:
        # Elsewhere than in that sleep its task is about to look at everything anyway.
        if peer.sleep is not None:
            peer.sleep.cancel()

    def serve_ready(self) -> None:
        """What has come is left to the tasks of the peers."""

    def send_ready(self) -> None:
        real_ms = self._clock.now().mono_ms
        for peer in list(self.peers.values()):
            if peer.connection.unsent_bytes:
                peer.flush(real_ms)

    def close(self, peer: Peer) -> None:
        if peer.connection.is_closed:
            return
        notify_closing(peer.sock.fileno())
        self._forget(peer)
        self.wake(peer)

    def _started(self, peer: Peer) -> None:
        self._nursery.start_soon(self._serve, peer)

    async def _serve(self, peer: Peer) -> None:
        fd = peer.sock.fileno()
        wants = READ
        try:
            while True:
                is_readable = False
                if wants == READ and not peer.connection.is_parked:
                    await wait_readable(fd)
                    is_readable = True
                elif wants & AGAIN:
                    await checkpoint()
                elif wants & WRITE:
                    # Nothing is read meanwhile: a peer that takes no answers gets no further ones.
                    await wait_writable(fd)
                else:
                    is_readable = await self._wait_or_be_woken(peer, fd, wants)
                if peer.connection.is_closed:
                    return
                now = self._clock.now()
                self.turns += 1
                self._log.turn_begins()
                try:
                    wants = peer.on_readable(now, now.mono_ms) if is_readable else peer.resume(now, now.mono_ms)
                finally:
                    self._log.turn_ends()
                self._after_turn()
                if wants == GONE:
                    self._forget(peer)
                    return
        except trio.ClosedResourceError:
            return  # by close()

    async def _wait_or_be_woken(self, peer: Peer, fd: int, wants: int) -> bool:
        """Return True when the socket is readable, False when `wake` was called."""
        is_readable = False
        with trio.CancelScope() as peer.sleep:
            if wants & READ:
                await wait_readable(fd)
                is_readable = True
            else:
                await trio.sleep_forever()
        peer.sleep = None
        return is_readable
