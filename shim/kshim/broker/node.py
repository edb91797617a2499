"""One broker as clients see it: a node id, an advertised address, a router, over the shared cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.broker.cluster import Cluster
from kshim.broker.connection import Connection
from kshim.broker.router import Router
from kshim.broker.warmup import warmup_steps
from kshim.coordinator.step import Now
from kshim.partitions.partition import Partition

if TYPE_CHECKING:
    from kshim.broker.authentication_gate import Gate
    from kshim.broker.fetch_sessions import FetchSessions


def _nothing() -> None:
    pass


class Node:
    """Implements `FrameRouter`. `host` and `port` are what clients are told to dial.

    `addresses` holds the (host, port) of listeners by name, for those that clients find elsewhere.
    """

    def __init__(self, cluster: Cluster, node_id: int, host: str, port: int, *, now: Callable[[], Now]) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.addresses: dict[str, tuple[str, int]] = {}
        self.router = Router(self)
        self.route = self.router.route
        self.gate: Gate | None = None
        """What lets clients of SASL listeners through to `route`; set where there are such listeners."""
        self.background_tasks = cluster.background_tasks
        cluster.coordinator_loader.begin(now)
        cluster.transaction_loader.begin(now)
        cluster.partitions.begin(now)
        self._fetch_sessions: FetchSessions | None = None
        self._warming = warmup_steps(self.router)
        self.on_stop: Callable[[], None] = _nothing
        """Cuts off its clients and accepts no more; the server sets it."""
        self.on_start: Callable[[], None] = _nothing
        """Accepts clients again. Raises OSError."""
        cluster.leader_election.add_node(self)

    @property
    def fetch_sessions(self) -> FetchSessions:
        """What consumers fetch from this node. Made when first asked for, as messages are loaded then."""
        if self._fetch_sessions is None:
            from kshim.broker.fetch_sessions import FetchSessions

            slots = self.cluster.config.max_incremental_fetch_session_cache_slots
            self._fetch_sessions = FetchSessions(slots, self.cluster.new_session_id)
        return self._fetch_sessions

    def leads(self, partition: Partition) -> bool:
        """Whether this node answers for a partition."""
        return partition.leader.leader_id == self.node_id

    def leads_group_shard(self, index: int) -> bool:
        """Whether this node coordinates the groups of a partition of the offsets topic."""
        return self.leads(self.cluster.offsets_partition(index))

    def leads_transaction_shard(self, index: int) -> bool:
        """Whether this node coordinates the transactional ids of a partition of the transaction topic."""
        return self.leads(self.cluster.transactions_topic().partitions[index])

    def address(self, listener_name: str) -> tuple[str, int]:
        """Host and port that the clients of a listener dial: those advertised for it."""
        return self.addresses.get(listener_name) or (self.host, self.port)

    def closed(self, connection: Connection) -> None:
        """See `FrameRouter.closed`."""
        self.cluster.fetch_purgatory.cancel(connection)
        if self.gate is not None:
            self.gate.closed(connection)

    def next_deadline(self) -> int | None:
        """See `FrameRouter.next_deadline`."""
        return self.cluster.next_group_deadline()

    def advance(self, now: Now) -> None:
        """See `FrameRouter.advance`."""
        try:
            self.cluster.advance(now)
        except Exception as error:
            self.cluster.defect(error, None)

    def next_real_deadline(self) -> int | None:
        """See `FrameRouter.next_real_deadline`."""
        cluster = self.cluster
        alarm_ms = cluster.timers.next_ms
        wait_ms = cluster.fetch_purgatory.next_deadline()
        if alarm_ms is None or (wait_ms is not None and wait_ms < alarm_ms):
            return wait_ms
        return alarm_ms

    def advance_real(self, real_ms: int) -> None:
        """See `FrameRouter.advance_real`."""
        self.cluster.fetch_purgatory.advance(real_ms)
        self.cluster.timers.advance(real_ms)

    def warm(self) -> bool:
        """See `FrameRouter.warm`."""
        return next(self._warming, None) is not None
