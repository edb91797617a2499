"""The live page alone, in front of any cluster: `kshim page`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from kshim.control.access import Access
from kshim.control.api import ControlApi
from kshim.control.context import Pages
from kshim.control.handlers.page import TABLE
from kshim.control.limits import ControlLimits
from kshim.control.routing import Routes
from kshim.control.server import serve_http
from kshim.server.listener import bind

_BACKLOG = 128


@dataclass
class _Watching:
    pages: Pages
    is_over: bool = False


def run_pages(
    pages: Pages,
    look: Callable[[int], None],
    *,
    host: str,
    port: int,
    token: str | None,
    is_loopback: bool,
    interval_s: float,
    on_listening: Callable[[str], None],
) -> None:
    """Serve pages until interrupted, and call `look(now_ms)` in a thread every `interval_s`.

    Raises CannotBind, and what the first `look` raises. `token` None: none is asked for, which is for loopback addresses only.
    """
    look(_now_ms())
    try:
        trio.run(_serve, pages, look, host, port, token, is_loopback, interval_s, on_listening)
    except* KeyboardInterrupt:
        pass


async def _serve(
    pages: Pages,
    look: Callable[[int], None],
    host: str,
    port: int,
    token: str | None,
    is_loopback: bool,
    interval_s: float,
    on_listening: Callable[[str], None],
) -> None:
    context = _Watching(pages)
    names = frozenset({host.lower(), f"[{host.lower()}]"}) if is_loopback else None
    api = ControlApi(
        Routes(TABLE.routes),
        lambda: context,
        Access(token, names, is_read_only=True),
        after=lambda: None,
        report=lambda error, request: _failed(str(request), error),
    )
    sock = await bind(host, port, backlog_size=_BACKLOG)
    shown = f"[{host}]" if ":" in host else host
    on_listening(f"http://{shown}:{sock.getsockname()[1]}/page")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, sock, api, ControlLimits(), _failed)
        while True:
            await trio.sleep(interval_s)
            await trio.to_thread.run_sync(look, _now_ms(), abandon_on_cancel=True)


def _failed(what: str, error: Exception) -> None:
    sys.stderr.write(f"kshim: {what}: {error!r}\n")


def _now_ms() -> int:
    return int(time.time() * 1_000)
