"""The control surface of one cluster: its routes, who may use them, and its server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import trio

from kshim.control.access import Access
from kshim.control.api import ControlApi
from kshim.control.context import ControlContext, Controlled
from kshim.control.handlers import DESCRIBED, ROUTES
from kshim.control.handlers.page import OwnPages
from kshim.control.http import encoded
from kshim.control.limits import ControlLimits
from kshim.control.server import serve_http
from kshim.server.listener import bind

if TYPE_CHECKING:
    from kshim.server.server import Server

_BACKLOG = 128


@cache
def _description() -> bytes:
    from kshim.control.openapi import description_of

    return encoded(description_of(DESCRIBED, version("kshim")))


class Control:
    """Serves the control surface of brokers on `host` and `port` (0: a free one) while `run` runs.

    `token` None: no token is asked for, which is for loopback addresses only; the caller checks that.
    `is_read_only`: what changes something is refused. `failed(what, error)` is called with what went wrong with a connection.
    """

    def __init__(
        self,
        controlled: Controlled,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        is_loopback: bool = True,
        is_read_only: bool = False,
        failed: Callable[[str, Exception], None],
        on_listening: Callable[[str], None] = lambda _url: None,
        limits: ControlLimits | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._limits = limits or ControlLimits()
        self._is_read_only = is_read_only
        self._context = self._context_of(controlled)
        self._reset_wanted = trio.Event()
        self._serving = trio.Event()
        self._failed = failed
        self._on_listening = on_listening
        self._api = ControlApi(
            ROUTES,
            lambda: self._context,
            Access(
                token,
                frozenset({host.lower(), f"[{host.lower()}]"}) if is_loopback else None,
                is_read_only=is_read_only,
            ),
            after=self._rearm,
            report=controlled.cluster.report,
        )

    @property
    def url(self) -> str:
        """Where it is found once `run` has started."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Raises CannotBind before it has started."""
        sock: socket.socket = await bind(self.host, self.port, backlog_size=_BACKLOG)
        self.port = sock.getsockname()[1]
        self._on_listening(self.url)
        await serve_http(sock, self._api, self._limits, self._failed, task_status=task_status)

    def serving(self, server: Server) -> None:
        """The brokers accept connections: from now on `/ready` may say so."""
        self._context.server = server
        self._serving.set()

    async def reset_wanted(self) -> None:
        """Return when the brokers are to be replaced by others, which `control` then gets to know."""
        await self._reset_wanted.wait()

    def end(self) -> None:
        """The brokers are about to be replaced by others: waits and streams of these are over. Idempotent."""
        if not self._context.is_over:
            self._context.end()
            self._serving = trio.Event()

    def control(self, controlled: Controlled) -> None:
        """Control other brokers from now on."""
        self._context = self._context_of(controlled)

    def _context_of(self, controlled: Controlled) -> ControlContext:
        return ControlContext(
            controlled, self._limits, self._reset, _description, OwnPages, is_read_only=self._is_read_only
        )

    async def _reset(self) -> ControlContext:
        """Have the brokers replaced, and return the context of the others once they accept connections."""
        if not self._context.is_over:
            self.end()
            wanted, self._reset_wanted = self._reset_wanted, trio.Event()
            wanted.set()
        await self._serving.wait()
        return self._context

    def _rearm(self) -> None:
        if self._context.server is not None:
            self._context.server.rearm()
