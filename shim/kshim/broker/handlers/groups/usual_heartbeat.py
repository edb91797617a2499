"""The Heartbeat that most requests are, from its bytes to those of the answer: the same as the last one on its connection.

The coordinator does with it what it does with any other, but it is parsed only once, and nothing is made for it that only
other requests need. Whatever is not as usual, or would be refused, is left to the handler before anything is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshim.broker.request import parsed_once
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.frame import ProtocolError, build_answer

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now


class UsualHeartbeat:
    """Those of one version, to the only node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._cluster = node.cluster
        self._host = node.cluster.coordinators[OFFSETS_TOPIC]
        self._route = route
        self._bodies: dict[int, bytes] = {}
        """Those of the answers, by error code."""

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        route, client, coordinator = self._route, connection.client, self._host.made
        try:
            request, client.last_heartbeat = parsed_once(frame, route, client.last_heartbeat)
        except ProtocolError:
            return False
        if coordinator is None or client.member_id != request.member_id or self._cluster.durability.replies_wait:
            return False
        try:
            response = coordinator.heartbeat_at_home(request, now)
        except Exception:  # a Heartbeat may be handled again: the handler says what is wrong with it
            return False
        if response is None:
            return False
        body = self._bodies.get(response.error_code)
        if body is None:
            body = self._bodies[response.error_code] = route.response_codec.build(response)
        client.last_now, client.last_api = now, route.api
        connection.reply(build_answer(frame, body, flexible=route.response_is_flexible))
        return True
