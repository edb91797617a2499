"""What handlers are given: the brokers, and what goes with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kshim.control.http import ProblemError
from kshim.control.limits import ControlLimits
from kshim.control.metrics import Metrics
from kshim.harness.waits import Waits

if TYPE_CHECKING:
    from kshim.broker.cluster import Cluster
    from kshim.coordinator.step import Now
    from kshim.faults.faults import Faults
    from kshim.page import GroupNow, GroupRow, Site
    from kshim.server.server import Server


class Pages(Protocol):
    """Whose groups pages show."""

    def cluster(self, group: str | None) -> Site:
        """What all pages have in common, or the one of a group."""

    def rows(self, search: str) -> tuple[list[GroupRow], int]:
        """The groups whose names have the text, those with something wrong first; and how many groups there are."""

    def group(self, name: str) -> GroupNow | None:
        """One group with its past; None: there is none."""


class PageContext(Protocol):
    """What pages need."""

    @property
    def is_over(self) -> bool:
        """Whether it has been replaced by another."""

    @property
    def pages(self) -> Pages:
        """Whose groups are shown."""


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
        pages: Callable[[ControlContext], Pages],
        *,
        is_read_only: bool = False,
    ) -> None:
        self.describe = describe
        self.is_read_only = is_read_only
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
        self.pages = pages(self)
        self.metrics = Metrics(self.cluster, self.faults, lambda: self.stream_count)

    def end(self) -> None:
        """The brokers are reset: who waits for something of them waits no longer."""
        self.is_over = True
        for call in tuple(self.on_over):
            call()
        self.waits.close(ProblemError(503, "the brokers were reset"))
