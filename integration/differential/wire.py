"""A connection that carries raw frames, and what a broker made of one."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

Address = tuple[str, int]

_SIZE = struct.Struct(">i")
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)


class Answer(NamedTuple):
    """What came back for a request: a frame without its size, or None when the broker closed the connection."""

    frame: bytes | None


class Line:
    """One connection to one broker, at most one request at a time."""

    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection(address, timeout=10)
        self.sock.settimeout(None)  # with a timeout recv would wait in spite of MSG_DONTWAIT
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_open = True
        self._buffer = b""

    def send(self, frame: bytes) -> None:
        """Send a frame that has its size. A peer that has closed is found out by `take`."""
        try:
            self.sock.sendall(frame)
        except OSError:
            self.is_open = False

    def take(self) -> Answer | None:
        """The answer if it is here or the peer has closed, without waiting."""
        while (frame := self._cut()) is None:
            if not self.is_open:
                return Answer(None)
            try:
                data = self.sock.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if data:
                self._buffer += data
            else:
                self.is_open = False
        return Answer(frame)

    def close(self) -> None:
        """Close from this side."""
        self.is_open = False
        self.sock.close()

    def ask(self, frame: bytes, timeout_s: float) -> Answer | None:
        """Send and wait. None: no answer in time."""
        self.send(frame)
        deadline = time.monotonic() + timeout_s
        while (answer := self.take()) is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            wait_for([self], left_s)
        return answer

    def _cut(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if len(self._buffer) < 4 + size:
            return None
        frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
        return frame


class LinePairs:
    """Connections to both brokers that serve one request after the other."""

    def __init__(self, addresses: dict[str, Address]) -> None:
        self._addresses = addresses
        self._free: list[dict[str, Line]] = []
        self._all: list[Line] = []

    def take(self) -> dict[str, Line]:
        """A pair on which nothing is owed."""
        while self._free:
            pair = self._free.pop(0)
            if all(line.is_open for line in pair.values()):
                return pair
        pair = {name: Line(address) for name, address in self._addresses.items()}
        self._all += pair.values()
        for line in pair.values():
            # Kafka hands a new connection from thread to thread: until the first answer it is no equal of the others.
            line.ask(_API_VERSIONS, timeout_s=10)
        return pair

    def give_back(self, pair: dict[str, Line]) -> None:
        """Both have answered."""
        self._free.append(pair)

    def close(self) -> None:
        """Close all, also those in use."""
        for line in self._all:
            line.close()


def wait_for(lines: Iterable[Line], timeout_s: float) -> None:
    """Return when one of the lines has something to read, or after `timeout_s`."""
    poll = select.poll()
    for line in lines:
        if line.is_open:
            poll.register(line.sock, select.POLLIN)
    poll.poll(max(0, int(timeout_s * 1000)))
