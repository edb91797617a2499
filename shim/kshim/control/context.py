"""What handlers are given: the brokers, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kshim.control.limits import ControlLimits
from kshim.control.metrics import Metrics
from kshim.harness.waits import Waits

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Faults
    from kshim.server.server import Server


class Controlled(NamedTuple):
    """What is controlled: a cluster, its faults, the clock of its timers and how fast that runs, in thousandths."""

    cluster: Cluster
    faults: Faults
    now: Callable[[], Now]
    clock_rate: int = 1_000


class ControlContext:
    """`server` None: the brokers do not accept connections yet."""

    def __init__(self, controlled: Controlled, limits: ControlLimits) -> None:
        self.cluster, self.faults, self.now, self.clock_rate = controlled
        self.waits = Waits(self.cluster)
        self.limits = limits
        self.server: Server | None = None
        self.stream_count = 0
        self.metrics = Metrics(self.cluster, self.faults, lambda: self.stream_count)
