"""Short ways: the requests that are most frequent go from their bytes to those of the answer, where they are as usual.

Whatever is not as usual, or would be refused, a short way leaves to the handler before anything is done. Nobody else hears of
what takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.broker.request import FETCH, HEARTBEAT, METADATA, OFFSET_COMMIT, OFFSET_FETCH, PRODUCE

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now

Usual = Callable[[bytes, "Connection", "Now", int], bool]
"""`(frame, connection, now, real_ms)`: handles a request; False, and nothing is done, if that is for the handler to do."""


class _ShortWay(NamedTuple):
    module: str
    name: str
    first_version: int = 0
    needs_all_groups: bool = False
    """Whether the node has to lead all groups, as the only one does."""


_SHORT_WAYS: Final = {
    PRODUCE: _ShortWay("records.usual_produce", "UsualProduce", 9),
    FETCH: _ShortWay("records.usual_fetch", "UsualFetch", 12),
    METADATA: _ShortWay("topics.usual_metadata", "UsualMetadata"),
    HEARTBEAT: _ShortWay("groups.usual_heartbeat", "UsualHeartbeat", needs_all_groups=True),
    OFFSET_COMMIT: _ShortWay("groups.usual_commit", "UsualCommits", 8, needs_all_groups=True),
    OFFSET_FETCH: _ShortWay("groups.usual_offset_fetch", "UsualOffsetFetch", needs_all_groups=True),
}
"""By API key. The first versions are those from which on requests are flexible."""


def short_way(node: Node, route: Route) -> Usual | None:
    """That of a route to a node, if it has one."""
    way = _SHORT_WAYS.get(route.api.key)
    if way is None or route.version < way.first_version:
        return None
    if way.needs_all_groups and node.cluster.leadership.is_spread:
        return None
    usual: Any = getattr(import_module(f"kshim.broker.handlers.{way.module}"), way.name)
    handle: Usual = usual(node, route).handle
    return handle
