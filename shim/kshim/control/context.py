"""What handlers are given: the brokers, and what goes with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from kshim.control.http import ProblemError
from kshim.control.limits import ControlLimits
from kshim.control.metrics import Metrics
from kshim.control.seen import Seen
from kshim.harness.waits import Waits

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Faults
    from kshim.server.server import Server


class Controlled(NamedTuple):
    """What is controlled: a cluster, its faults, the clock of its timers and how fast that runs, in thousandths.

    `no_reset` says why it cannot be reset; None: it can.
    """

    cluster: Cluster
    faults: Faults
    now: Callable[[], Now]
    clock_rate: int = 1_000
    no_reset: str | None = None


class ControlContext:
    """`server` None: the brokers do not accept connections yet. `reset` asks for others in their place, and waits for them;
    `describe` makes the description of the interface."""

    def __init__(
        self,
        controlled: Controlled,
        limits: ControlLimits,
        reset: Callable[[], Awaitable[ControlContext]],
        describe: Callable[[], bytes],
        *,
        is_read_only: bool = False,
    ) -> None:
        self.describe = describe
        self.is_read_only = is_read_only
        self.seen = Seen(controlled.cluster)
        self.cluster, self.faults, self.now, self.clock_rate, self.no_reset = controlled
        self.reset = reset
        self.is_over = False
        """Whether the brokers were reset, or are about to be."""
        self.on_over: list[Callable[[], None]] = []
        """Called then."""
        self.waits = Waits(self.cluster)
        self.limits = limits
        self.server: Server | None = None
        self.stream_count = 0
        self.metrics = Metrics(self.cluster, self.faults, lambda: self.stream_count)

    def end(self) -> None:
        """The brokers are reset: who waits for something of them waits no longer."""
        self.is_over = True
        for call in tuple(self.on_over):
            call()
        self.waits.close(ProblemError(503, "the brokers were reset"))
