"""The Metadata request that names topics that exist, from its bytes to those of the answer, which is kept.

It is answered as by `metadata`, and kept with the facts it tells; these are compared at each request. Whatever needs more
than a look, a topic that has to be made or an error, is left to the handler before anything is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.broker.handlers.topics.metadata import described, found_topics
from kshim.partitions.internal_topics import EVENTS_TOPIC
from kshim_protocol.errors import KafkaError
from kshim_protocol.frame import ProtocolError, build_answer, parse_request_header

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now


_CLIENT_ID_AT: Final = 8  # behind api key, version and correlation id
_MOST_CLIENT_ID_BYTES: Final = 0x7FFF
_MOST_KEPT: Final = 64
_MOST_BYTES: Final = 32 * 1024  # of a request and its answer


class _Kept(NamedTuple):
    """An answer, and what it tells besides the topics and their leaders."""

    facts: object
    body: bytes


class UsualMetadata:
    """Those of one version, to one node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._node = node
        self._cluster = node.cluster
        self._route = route
        self._kept: dict[tuple[str, bytes], _Kept] = {}
        """By listener and what stands behind the client id."""
        self._versions = -1, -1
        """Of the topics and of their leaders, when it was kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        versions = self._cluster.topics.version, self._cluster.partitions.leaders_version
        if self._versions != versions:
            self._versions = versions
            self._kept.clear()
        if len(frame) < _CLIENT_ID_AT + 2:
            return False
        length = frame[_CLIENT_ID_AT] << 8 | frame[_CLIENT_ID_AT + 1]
        if length > _MOST_CLIENT_ID_BYTES:
            length = 0  # it is null
        listener_name = connection.listener_name
        key = listener_name, frame[_CLIENT_ID_AT + 2 + length :]
        kept = self._kept.get(key)
        if kept is None or kept.facts != self._facts(listener_name):
            kept = self._made(frame, listener_name)
            if kept is None:
                return False
            if len(frame) + len(kept.body) <= _MOST_BYTES:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = kept
        route, client = self._route, connection.client
        client.last_now, client.last_api = now, route.api
        connection.reply(build_answer(frame, kept.body, flexible=route.response_is_flexible))
        return True

    def _facts(self, listener_name: str) -> object:
        cluster = self._cluster
        brokers = [(other.node_id, other.address(listener_name), other.rack) for other in cluster.nodes]
        return brokers, tuple(cluster.leadership.live_ids)

    def _made(self, frame: bytes, listener_name: str) -> _Kept | None:
        route = self._route
        try:
            header = parse_request_header(frame, flexible=route.request_is_flexible)
            request: Any = route.request_codec.parse(frame, header.body_at)[0]
            if any(topic.name == EVENTS_TOPIC for topic in request.topics or ()):
                return None  # each such request has the topic written up to now, which an answer that is kept would not
            found = found_topics(self._node, request, route.version)
        except (ProtocolError, KafkaError):
            return None
        topics = [topic for topic in found if topic is not None]
        if len(topics) < len(found):
            return None
        response = described(self._node, request, route.version, listener_name, topics)
        return _Kept(self._facts(listener_name), route.response_codec.build(response))
