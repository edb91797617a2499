"""The HTTP server of the control surface, in the trio loop of the brokers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import trio

from kshim.control.connection import Api, HttpConnection
from kshim.control.limits import ControlLimits

_ACCEPT_RETRY_S: Final = 0.1


async def serve_http(
    sock: socket.socket,
    api: Api,
    limits: ControlLimits,
    failed: Callable[[str, Exception], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `api` on a listening socket until cancelled; then every connection is closed at once.

    `failed(what, error)` is called with what went wrong with one connection; the others go on.
    """
    slots = trio.CapacityLimiter(limits.connections)

    async def serve_one(stream: trio.SocketStream) -> None:
        try:
            await HttpConnection(stream, api, limits).run()
        except Exception as error:
            failed("serving a control connection", error)
        finally:
            slots.release_on_behalf_of(stream)
            stream.socket.close()

    async with trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener, trio.open_nursery() as nursery:
        task_status.started()
        while True:
            waiting = object()
            await slots.acquire_on_behalf_of(waiting)
            slots.release_on_behalf_of(waiting)  # one is free, and only this task takes them
            try:
                stream = await listener.accept()
            except OSError as error:  # no file descriptors left, most often
                failed("accepting a control connection", error)
                await trio.sleep(_ACCEPT_RETRY_S)
                continue
            slots.acquire_on_behalf_of_nowait(stream)
            nursery.start_soon(serve_one, stream)
