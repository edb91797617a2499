"""The listening socket: binding it, what stands behind it, and the address of a peer as Kafka prints it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from struct import unpack
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

if TYPE_CHECKING:
    from kshim.broker.connection import FrameRouter
    from kshim.config.listeners import Listener
    from kshim.server.transport_layer import TransportLayer


class CannotBind(Exception):
    """The address cannot be listened on. `address` is HOST:PORT, `reason` the operating system's."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot bind {address}: {reason}")
        self.address = address
        self.reason = reason


class Bound(NamedTuple):
    """A listener that listens. `make_transport_layer` makes what lies under each of its connections; None for plain text.

    `router` answers its requests; None: the only one there is.
    """

    listener: Listener
    sock: socket.socket
    make_transport_layer: Callable[[], TransportLayer] | None
    router: FrameRouter | None = None


async def bind(host: str, port: int, *, backlog_size: int) -> socket.socket:
    """A non-blocking listening socket. `host` is a name or a literal, "" means all addresses; port 0 any free one.

    Of several addresses of a name the first IPv4 one is taken, as Java does. Raises CannotBind.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not 0 <= port <= 65_535:  # getaddrinfo would take it modulo 65536
        raise CannotBind(address, "no such port")
    try:
        found = await trio.socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, sockaddr = min(found, key=lambda info: info[0] != socket.AF_INET)
        return listening(socket.socket(family, kind, protocol), sockaddr, backlog_size)
    except (OSError, UnicodeError) as error:
        raise CannotBind(address, _reason(error)) from error


def listening(sock: socket.socket, sockaddr: Any, backlog_size: int) -> socket.socket:
    """The new `sock`, bound to `sockaddr`, listening and non-blocking. Raises OSError, and closes it."""
    try:
        if sys.platform == "win32":  # where SO_REUSEADDR would let two servers share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(sockaddr)
        sock.listen(backlog_size)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def java_client_host(address: Sequence[Any]) -> str:
    """A peer's address as `InetAddress.toString` gives it, which group metadata holds: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`.

    >>> java_client_host(("::ffff:10.0.0.7", 50000, 0, 0))
    '/10.0.0.7'
    """
    host = str(address[0]).partition("%")[0]
    if ":" not in host:
        return f"/{host}"
    packed = socket.inet_pton(socket.AF_INET6, host)
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return f"/{socket.inet_ntoa(packed[12:])}"
    scope = f"%{address[3]}" if len(address) > 3 and address[3] else ""
    return "/" + ":".join(f"{group:x}" for group in unpack(">8H", packed)) + scope


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
