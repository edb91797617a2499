"""The OffsetFetch that is the same as the last one on its connection, from its bytes to those of the answer.

The coordinator is asked as for any other, but it is parsed only once, and nothing is made for it that only other requests
need. What cannot be answered at once is left to the handler: nothing is done by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kshim.coordinator.step import OFFSETS_TOPIC
from kshim_protocol.frame import ProtocolError, build_response_frame, parse_request_header

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now

_BEHIND_CORRELATION_ID: Final = 8
_MOST_BYTES: Final = 1024  # of a request that is kept: every connection may have one


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
        said = frame[_BEHIND_CORRELATION_ID:]
        kept = client.last_offset_fetch
        if kept is None or kept[:2] != (route, said):
            try:
                header = parse_request_header(frame, flexible=route.request_is_flexible)
                request: Any = route.request_codec.parse(frame, header.body_at)[0]
            except ProtocolError:
                return False
            client.last_offset_fetch = None if len(said) > _MOST_BYTES else (route, said, request)
        else:
            request = kept[2]
        try:
            body = route.response_codec.build(coordinator.offset_fetch_at_home(request, route.version))
        except Exception:  # it may be handled again: the handler says what is wrong with it
            return False
        client.last_now, client.last_api = now, route.api
        correlation_id = int.from_bytes(frame[4:_BEHIND_CORRELATION_ID], "big", signed=True)
        connection.reply(build_response_frame(correlation_id, body, flexible=route.response_is_flexible))
        return True
