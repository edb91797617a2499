"""The brokers' clock over HTTP."""

from __future__ import annotations

from kshim.control.context import ControlContext
from kshim.control.documents import Advanced, AdvanceInput, ClockDocument, FiredTimer
from kshim.control.http import ProblemError
from kshim.control.routing import Table
from kshim.harness.keep_alive import KeepAlive
from kshim.server.timers import Schedule

TABLE = Table()
LISTED_MAX = 1_000


@TABLE.get("/v1/clock")
def read_clock(context: ControlContext) -> ClockDocument:
    """Read the clock that all timers of the brokers run on."""
    return ClockDocument(now_ms=context.now().wall_ms, rate=context.clock_rate / 1_000)


@TABLE.post("/v1/clock/advance", problems=(404, 409, 503))
def advance_clock(context: ControlContext, body: AdvanceInput) -> Advanced:
    """Move the clock ahead, and fire on the way, in the order of time, whatever falls due.

    When this is answered, what follows from the timers is done. The clients' own clocks stay real, and they get no time
    to send heartbeats meanwhile: `keep_alive` names those whose sessions do not expire.
    """
    if context.server is None or context.server.clock_control is None:
        raise ProblemError(503, "the brokers do not accept connections yet")
    context.server.clock_control.settle()
    try:
        members = KeepAlive(context.cluster, body.keep_alive)
    except LookupError as error:
        raise ProblemError(404, str(error)) from None
    try:
        fired = context.server.clock_control.advance(
            body.seconds, beside=Schedule(members.next_deadline, members.refresh)
        )
    except RuntimeError as error:
        raise ProblemError(409, str(error)) from None
    shown = [FiredTimer(kind=each.kind, key=list(each.key), at=each.at) for each in fired[:LISTED_MAX]]
    return Advanced(now_ms=context.now().wall_ms, fired=shown, fired_omitted=len(fired) - len(shown))
