"""One broker as handlers and other brokers see it: a node id and an advertised address, over the shared cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshim.broker.cluster import Cluster
from kshim.partitions.partition import Partition

if TYPE_CHECKING:
    from kshim.broker.fetch_sessions import FetchSessions
    from kshim.share_partitions.share_sessions import ShareSessions


class Node:
    """`host` and `port` are the address that clients connect to.

    `addresses` holds the (host, port) of listeners by name, for those that clients find elsewhere.
    """

    def __init__(self, cluster: Cluster, node_id: int, host: str, port: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.addresses: dict[str, tuple[str, int]] = {}
        self._fetch_sessions: FetchSessions | None = None
        self.share_sessions_made: ShareSessions | None = None
        self.on_stop: Callable[[], None] = lambda: None
        """Cuts off its clients and accepts no more; the server sets it."""
        self.on_kill: Callable[[], None] = lambda: None
        """The same, without a last answer; the server sets it."""
        self.on_start: Callable[[], None] = lambda: None
        """Accepts clients again. Raises OSError."""
        cluster.leader_election.add_node(self)

    @property
    def rack(self) -> str | None:
        """Where it is, as the configuration says."""
        return self.cluster.config.broker_rack

    @property
    def fetch_sessions(self) -> FetchSessions:
        """What consumers fetch from this node. Made when first asked for, as messages are loaded then."""
        if self._fetch_sessions is None:
            from kshim.broker.fetch_sessions import FetchSessions

            slots = self.cluster.config.max_incremental_fetch_session_cache_slots
            self._fetch_sessions = FetchSessions(slots, self.cluster.new_session_id)
        return self._fetch_sessions

    @property
    def share_sessions(self) -> ShareSessions:
        """What members of share groups read from this node; made when first needed."""
        if self.share_sessions_made is None:
            from kshim.share_partitions.share_sessions import ShareSessions

            self.share_sessions_made = ShareSessions()
        return self.share_sessions_made

    def end_share_sessions(self) -> None:
        """Share groups were switched off: their members have no sessions any more."""
        self.share_sessions_made = None

    def leads(self, partition: Partition) -> bool:
        """Whether this node answers for a partition."""
        return partition.leader.leader_id == self.node_id

    def leads_shard(self, topic: str, index: int) -> bool:
        """Whether this node answers for a partition of a coordinator's topic."""
        return self.leads(self.cluster.coordinators[topic].partition(index))

    def address(self, listener_name: str) -> tuple[str, int]:
        """Host and port that the clients of a listener dial: those advertised for it."""
        return self.addresses.get(listener_name) or (self.host, self.port)
