"""The OffsetCommit that most of a single partition are, from its bytes to those of the answer: without metadata, and but for
the position the same as the last one on its connection.

It is checked, written and kept as by the handler, but what is the same is parsed and made only once. Whatever is not as
usual, or would be refused, is left to the handler before anything is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kshim.broker.request import PendingReply
from kshim.coordinator.append_errors import append_error
from kshim.coordinator.groups.offsets.offset_commit import accepted
from kshim.coordinator.groups.offsets.offset_rows import EMPTY_TEXT
from kshim.coordinator.groups.offsets.usual_commit import UsualCommit
from kshim.coordinator.step import OFFSETS_TOPIC
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError, build_answer, parse_request_header

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.groups.shard import Shard
    from kshim.coordinator.step import Now

_TOPIC_IDS_FROM: Final = 10
_BEHIND_CORRELATION_ID: Final = 8
_POSITION_BYTES: Final = 12  # offset and leader epoch
_NO_METADATA: Final = (b"\1\0\0\0", b"\0\0\0\0")  # empty or null, and no tags of partition, topic and request
_END_BYTES: Final = 16  # both
_COUNT_AT: Final = -_END_BYTES - 5  # before the index of the only partition, from the end
_ONE: Final = b"\2"  # how a compact array says that it has one element
_MOST_BYTES: Final = 1024  # of a request that is kept: every connection may have one


_Kept = tuple["Route", bytes, int, UsualCommit, bytes]
"""What the commits of one connection have in common: their route, what stands before the position, the version of the topics
that says what exists, what is to be done, and the bytes of the answer."""


class UsualCommits:
    """Those of one version, to the only node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._cluster = node.cluster
        self._host = node.cluster.coordinators[OFFSETS_TOPIC]
        self._route = route

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        cluster, client, coordinator = self._cluster, connection.client, self._host.made
        if coordinator is None or cluster.durability.replies_wait:
            return False
        if cluster.partitions.before_append is not None or cluster.steps.on_appended:  # somebody hears of appends
            return False
        if frame[_COUNT_AT : _COUNT_AT + 1] != _ONE or frame[-4:] not in _NO_METADATA:
            return False
        said, version = frame[_BEHIND_CORRELATION_ID:-_END_BYTES], cluster.topics.version
        kept = client.last_commit
        if kept is None or kept[:3] != (self._route, said, version):
            kept = client.last_commit = self._kept(frame, said, version)
            if kept is None:
                return False
        commit, body = kept[3:]
        shard = coordinator.home_of(commit.group_id)
        if shard is None or client.member_id != commit.member_id:
            return False
        position = frame[-_END_BYTES : _POSITION_BYTES - _END_BYTES] + EMPTY_TEXT
        try:
            batch = commit.batch(shard, position, now)
        except KafkaError:
            return False
        if batch is None:
            return False
        cluster.client_activity.committed(commit.member_id, now)
        client.last_now, client.last_api = now, self._route.api
        purgatory = cluster.fetch_purgatory
        purgatory.hold()
        try:
            partition = self._host.partition(shard.partition)
            partition.topic.batch_validator(cluster.config).check_coordinator_batch(batch)
            commit.written(shard, position, partition.append(batch), now)
        except Exception as error:
            self._refuse(frame, connection, shard, error)
        else:
            connection.reply(build_answer(frame, body, flexible=True))
        finally:
            purgatory.let_go()
        return True

    def _kept(self, frame: bytes, said: bytes, topics_version: int) -> _Kept | None:
        """What a request has in common with those that will follow; None: it is not of this kind, or of no partition."""
        route, topics = self._route, self._cluster.topics
        if len(said) > _MOST_BYTES:
            return None
        try:
            body_at = parse_request_header(frame, flexible=True).body_at
            if not self._is_of_one_partition(frame, body_at):
                return None
            request: Any = route.request_codec.parse(frame, body_at)[0]
        except (ProtocolError, IndexError):
            return None
        requested = request.topics[0]
        index = requested.partitions[0].partition_index
        if route.version >= _TOPIC_IDS_FROM:
            name, topic_id = topics.topic_name(requested.topic_id), requested.topic_id
        else:
            name, topic_id = requested.name, topics.topic_id(requested.name)
        if not name or topic_id is None or not 0 <= index < (topics.partition_count(name) or 0):
            return None
        body = route.response_codec.build(accepted(name, requested.topic_id, (index,)))
        return route, said, topics_version, UsualCommit(request, route.version, name, topic_id), body

    def _is_of_one_partition(self, frame: bytes, at: int) -> bool:
        """Whether a position is all that stands behind the index of a single partition. Raises IndexError for short requests."""
        lengths = [frame[at]]  # of texts, one more: of group, member, instance and topic
        at += lengths[-1] + 4
        lengths.append(frame[at])
        at += lengths[-1]
        lengths.append(frame[at] or 1)  # null
        at += lengths[-1]
        at += 1
        if frame[at - 1 : at] != _ONE:
            return False
        if self._route.version >= _TOPIC_IDS_FROM:
            at += 16
        else:
            lengths.append(frame[at])
            at += lengths[-1]
        return at == len(frame) + _COUNT_AT and min(lengths) > 0 and max(lengths) <= 127

    def _refuse(self, frame: bytes, connection: Connection, shard: Shard, error: Exception) -> None:
        """Answer what could not be appended as the handler does."""
        route = self._route
        header = parse_request_header(frame, flexible=True)
        request: Any = route.request_codec.parse(frame, header.body_at)[0]
        reply = PendingReply(connection, header, route, request)
        if isinstance(error, KafkaError):
            reply.refuse(append_error(error.code))
        elif isinstance(error, LogError):
            self._cluster.report(error, request)
            reply.refuse(append_error(ErrorCode.KAFKA_STORAGE_ERROR))
        else:
            reply.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._host.coordinator.begin().works_on(shard.partition)
            self._cluster.steps.defect(error, request)
