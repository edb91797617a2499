"""What handlers are given: the brokers, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.control.limits import ControlLimits
from kshim.harness.waits import Waits

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now


class ControlContext:
    """`now` is the group clock. `is_serving`: the brokers accept connections."""

    def __init__(self, cluster: Cluster, now: Callable[[], Now], limits: ControlLimits) -> None:
        self.cluster = cluster
        self.now = now
        self.limits = limits
        self.waits = Waits(cluster)
        self.is_serving = False
        self.stream_count = 0
