"""The OffsetFetch that is the same as the last one on its connection, from its bytes to those of the answer.

The coordinator is asked as for any other, but it is parsed only once, and nothing is made for it that only other requests
need. What cannot be answered at once is left to the handler: nothing is done by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import parsed_once
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.frame import build_answer

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now


class UsualOffsetFetch:
    """Those of one version, to the only node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._cluster = node.cluster
        self._host = node.cluster.coordinators[OFFSETS_TOPIC]
        self._route = route

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        route, client, coordinator = self._route, connection.client, self._host.made
        if coordinator is None or self._cluster.durability.replies_wait:
            return False
        try:
            request, client.last_offset_fetch = parsed_once(frame, route, client.last_offset_fetch)
            body = route.response_codec.build(coordinator.offset_fetch_at_home(request, route.version))
        except Exception:  # it may be handled again: the handler says what is wrong with it
            return False
        client.last_now, client.last_api = now, route.api
        connection.reply(build_answer(frame, body, flexible=route.response_is_flexible))
        return True
