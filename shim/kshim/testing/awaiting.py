"""Futures of another thread, awaited under trio or asyncio."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import trio

T = TypeVar("T")


async def awaited_to_the_end(future: Future[T]) -> T:
    """As `awaited`, for what takes milliseconds and must not be left half done: the end of it is waited for when cancelled, too."""
    if trio.lowlevel.in_trio_run():
        with trio.CancelScope(shield=True):
            return await awaited(future)
    import asyncio

    inner = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(inner)
    except asyncio.CancelledError:
        await asyncio.wait([inner])
        raise


async def awaited(future: Future[T]) -> T:
    """Wait for a future of another thread, under trio or asyncio. When cancelled, it is given up."""
    if not trio.lowlevel.in_trio_run():
        import asyncio

        return await asyncio.wrap_future(future)
    done = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def wake(_: Future[T]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future.add_done_callback(wake)
    try:
        await done.wait()
    except BaseException:
        future.cancel()
        raise
    return future.result()


def running_loop() -> str | None:
    """`asyncio` or `trio`, in a thread that runs such a loop at this moment."""
    if trio.lowlevel.in_trio_run():
        return "trio"
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"
