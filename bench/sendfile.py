"""Serving records from a file: read and send, or sendfile.

    python -m bench.sendfile [--rounds 7]

A header of 80 bytes and then 1 KiB to 1 MiB of a file in the page cache go over a loopback connection, whose other end
throws them away in another thread. Three ways in turn, round after round: one read, joined to the header, one send (as
kshim does); one read and one sendmsg of both pieces; the header with MSG_MORE, then sendfile. Printed: CPU us of the
sending thread with the kernel's part, median [lowest-highest].
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable

FILE_BYTES = 32 << 20
SIZES = (1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
HEADER = bytes(80)

Way = Callable[[socket.socket, int, int, int], None]


def joined(connection: socket.socket, descriptor: int, offset: int, size_bytes: int) -> None:
    """One read, one copy, one send."""
    connection.sendall(b"".join((HEADER, os.pread(descriptor, size_bytes, offset))))


def in_two_pieces(connection: socket.socket, descriptor: int, offset: int, size_bytes: int) -> None:
    """One read, no copy."""
    data = os.pread(descriptor, size_bytes, offset)
    sent = connection.sendmsg((HEADER, data))
    if sent < len(HEADER) + size_bytes:
        connection.sendall(memoryview(data)[sent - len(HEADER) :])


def by_sendfile(connection: socket.socket, descriptor: int, offset: int, size_bytes: int) -> None:
    """No read at all."""
    connection.send(HEADER, socket.MSG_MORE)
    end = offset + size_bytes
    while offset < end:
        offset += os.sendfile(connection.fileno(), descriptor, offset, end - offset)


def connected() -> socket.socket:
    """A connection whose other end is drained by a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    buffer = bytearray(1 << 20)

    def drain() -> None:
        while receiver.recv_into(buffer):
            pass
        receiver.close()

    threading.Thread(target=drain, daemon=True).start()
    return sender


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("only Linux has MSG_MORE")
    ways: dict[str, Way] = {"read, joined": joined, "read, two pieces": in_two_pieces, "sendfile": by_sendfile}
    costs: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        connections = {name: connected() for name in ways}
        for _ in range(options.rounds):
            for size_bytes in SIZES:
                repeats = max(FILE_BYTES // size_bytes // 16, 16)
                for name, way in ways.items():
                    began_s = time.thread_time()
                    for number in range(repeats):
                        way(connections[name], file.fileno(), number * size_bytes % FILE_BYTES, size_bytes)
                    cost_us = (time.thread_time() - began_s) / repeats * 1e6
                    costs.setdefault((size_bytes, name), []).append(cost_us)
        for connection in connections.values():
            connection.close()
    print(f"{'KiB':>6}   " + "".join(f"{name:<26}" for name in ways))
    for size_bytes in SIZES:
        rows = [sorted(costs[size_bytes, name]) for name in ways]
        texts = [f"{statistics.median(row):.1f} [{row[0]:.1f}-{row[-1]:.1f}]" for row in rows]
        print(f"{size_bytes >> 10:>6}   " + "".join(f"{text:<26}" for text in texts))


if __name__ == "__main__":
    main()
