"""The history over HTTP: a page at a time, or as a stream of server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import trio
from msgspec import UNSET

from kshim.control.context import ControlContext
from kshim.control.documents import HistoryPage, HistoryQuery, ResumeHeaders, StreamQuery
from kshim.control.http import EventStream, ProblemError, Send
from kshim.control.routing import Table

if TYPE_CHECKING:
    from kshim.coordinator.step import Event
    from kshim.history.history import History

TABLE = Table()
_AT_ONCE: Final = 200
"""Events that are sent before others have their turn."""


@TABLE.get("/v1/history")
def read_history(context: ControlContext, query: HistoryQuery) -> HistoryPage:
    """Read what happened to groups: each rebalance with its cause and times, members that came and went."""
    history = context.cluster.history
    events = history.ring.after(query.after, group_id=_group_of(query))
    shown = events[: query.limit]
    return HistoryPage(
        run=history.run,
        events=[msgspec.Raw(event.to_json()) for event in shown],
        next=shown[-1].number if shown else max(query.after, 0),
        missed=_missed(history, query.after),
    )


@TABLE.get("/v1/history/stream", answers="text/event-stream", problems=(503,))
def stream_history(context: ControlContext, query: StreamQuery, headers: ResumeHeaders) -> EventStream:
    """Follow the history as server-sent events.

    The name of an event is its type, its data the event, and its id is sent back as `Last-Event-ID` to go on after it; without
    that header the stream begins after the event number `after`, or with what happens next. Where events are no longer kept,
    an event named `gap` says how many. A peer that does not read is disconnected.
    """
    if context.stream_count >= context.limits.streams:
        raise ProblemError(503, f"{context.limits.streams} streams are open already", (("Retry-After", "5"),))
    history = context.cluster.history
    after = _start_of(history, query, headers)
    return EventStream(_Follower(context, after, _group_of(query)).run)


class _Follower:
    """Sends the events of the history after number `after`, as they happen."""

    def __init__(self, context: ControlContext, after: int, group_id: str | None) -> None:
        self._context = context
        self._after = after
        self._group_id = group_id
        self._happened = trio.Event()

    async def run(self, send: Send) -> None:
        """Until it is cancelled, or `send` raises."""
        context = self._context
        listeners = context.cluster.event_listeners
        context.stream_count += 1
        context.on_over.append(self._wake)
        listeners.append(self._on_event)
        try:
            await send(b"retry: 1000\n\n")
            while not context.is_over:
                happened = self._happened
                while await self._send_more(send):
                    await trio.lowlevel.checkpoint()
                with trio.move_on_after(context.limits.keep_alive_s) as waiting:
                    await happened.wait()
                if waiting.cancelled_caught:
                    await send(b": keep-alive\n\n")
        finally:
            context.stream_count -= 1
            context.on_over.remove(self._wake)
            listeners.remove(self._on_event)

    def _on_event(self, _event: Event) -> None:
        self._wake()

    def _wake(self) -> None:
        self._happened.set()
        self._happened = trio.Event()

    async def _send_more(self, send: Send) -> bool:
        """Send what has happened since; whether there is still more."""
        history = self._context.cluster.history
        events = history.ring.after(self._after, group_id=self._group_id)
        missed = _missed(history, self._after)
        text = [] if not missed else [f'event: gap\ndata: {{"missed":{missed}}}\n\n'.encode()]
        shown = events[:_AT_ONCE]
        for event in shown:
            head = f"event: {event.type}\nid: {event.run}-{event.number}\ndata: ".encode()
            text += [head, event.to_json(), b"\n\n"]
        if shown:
            self._after = shown[-1].number
        elif missed:
            self._after += missed
        if text:
            await send(b"".join(text))
        return len(events) > len(shown)


def _start_of(history: History, query: StreamQuery, headers: ResumeHeaders) -> int:
    """After which event a stream begins. Raises ProblemError: 400."""
    if headers.last_event_id is not UNSET and headers.last_event_id:
        run, _, number = headers.last_event_id.rpartition("-")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            raise ProblemError(400, "the headers: Last-Event-ID is not the id of an event")
        return int(number) if run == history.run else 0  # of another life of the brokers: all of this one is new
    if query.after is not UNSET:
        return query.after
    return history.ring.last_number


def _missed(history: History, after: int) -> int:
    """How many events after number `after` are no longer kept; of any group."""
    return max(history.ring.dropped_count - after, 0)


def _group_of(query: HistoryQuery | StreamQuery) -> str | None:
    return None if query.group is UNSET else query.group
