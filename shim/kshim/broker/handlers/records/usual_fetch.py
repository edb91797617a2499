"""The Fetch that most requests are, from its bytes to those of the answer: the last one on its connection, with another offset.

It is one of a single partition, without a session or with one that has no other. What it names is looked up once; records
are waited for and read as by `fetch`. Whatever is not as usual, or would be refused, is left to `fetch` before anything
is done.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kshim.broker.handlers.records.fetch import Reading, answer_waiting
from kshim.broker.leader_checks import check_leader
from kshim.broker.request import PendingReply
from kshim.partitions.fetch_purgatory import WaitingFetch
from kshim_protocol.compiler_source import uvarint
from kshim_protocol.errors import ErrorCode
from kshim_protocol.frame import build_answer, build_answer_around, parse_request_header
from kshim_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.fetch_sessions import FetchSession, Key
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now
    from kshim.partitions.partition import Partition, Topic


_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15  # before, the id of a replica stands at the beginning
_CLIENT_ID_AT: Final = 8  # behind api key, version and correlation id
_ONE: Final = 2  # how a compact array says that it has one element
_NOTHING_ELSE: Final = b"\1\1\0"  # no forgotten topics, no rack, no tags
_BEHIND_PARTITION: Final = b"\0\0" + _NOTHING_ELSE  # no tags of the partition and of the topic
_NO_RECORDS: Final = b"\1"
_BEHIND_RECORDS: Final = b"\0\0\0"  # no tags of the partition, the topic and the answer
_NO_SESSION_EPOCH: Final = -1
_READ_COMMITTED: Final = 1
_MOST_BYTES: Final = 1024  # of a request that is kept: every connection may have one
_limits = struct.Struct(">iiib")  # max_wait_ms, min_bytes, max_bytes, isolation_level
_session = struct.Struct(">ii")
_partition = struct.Struct(">iiqiqi")
_offset = struct.Struct(">q")
_OFFSET_BEHIND: Final = 8  # so many bytes behind the first of the partition
_epoch = struct.Struct(">i")
_numbers = struct.Struct(">qqq")
_UNLIKELY: Final = _numbers.pack(*[0x01_02_03_04_05_06_07_08] * 3)


class UsualRequest(NamedTuple):
    """A request without its correlation id, session epoch and offset, what it asks for, and the bytes of the answer."""

    usual: UsualFetch
    topics_version: int
    before_epoch: bytes
    epoch_at: int
    before_offset: bytes
    offset_at: int
    behind_offset: bytes
    max_bytes: int
    max_wait_ms: int  # 0 if it does not wait
    reads_committed: bool
    topic: Topic
    partition: Partition
    wanted: FetchPartition
    is_named: bool  # or else the session knows what is wanted
    session: FetchSession | None
    key: Key
    answer: tuple[bytes, bytes, bytes]  # before its numbers, before its records, behind them
    nothing: bytes  # what a session answers that has nothing to say


class UsualFetch:
    """Those of one version, to one node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._node = node
        self._cluster = node.cluster
        self._route = route

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        client = connection.client
        if client.last_fetch_ms is None:
            return False
        known: UsualRequest | None = client.last_fetch
        if (
            known is None
            or known.usual is not self
            or known.topics_version != self._cluster.topics.version
            or frame[_CLIENT_ID_AT : known.epoch_at] != known.before_epoch
            or frame[known.epoch_at + _epoch.size : known.offset_at] != known.before_offset
            or frame[known.offset_at + _offset.size :] != known.behind_offset
        ):
            try:
                known = client.last_fetch = self._looked_up(frame)
            except (IndexError, struct.error):
                known = client.last_fetch = None
            if known is None:
                return False
        if not self._goes_on(known, _epoch.unpack_from(frame, known.epoch_at)[0]):
            return False
        offset = _offset.unpack_from(frame, known.offset_at)[0] if known.is_named else known.wanted.fetch_offset
        try:
            check_leader(self._node, known.partition, max(known.wanted.current_leader_epoch, -1))
            found = self._read(known, offset)
        except Exception:  # a Fetch may be looked at again: the handler says what is wrong with it
            return False
        if found is None:
            return False
        client.last_now, client.last_api, client.last_fetch_ms = now, self._route.api, now.wall_ms
        if known.session is not None:
            self._node.fetch_sessions.use(known.session, real_ms)
            if known.is_named:
                known.session.replace(known.key, _wanted(frame, known.offset_at - _OFFSET_BEHIND))
        if found[1] or not known.max_wait_ms:
            self._reply(known, frame, connection, found)
            return True
        self._cluster.fetch_purgatory.add(
            WaitingFetch(
                connection,
                (known.partition,),
                1,
                real_ms + known.max_wait_ms,
                partial(self._answer, known, frame, connection, offset),
                reads_committed=known.reads_committed,
            )
        )
        return True

    def _goes_on(self, known: UsualRequest, epoch: int) -> bool:
        """Whether a request goes on with the session of the one before, which still is for this partition alone."""
        session = known.session
        if session is None:
            return epoch == _NO_SESSION_EPOCH
        partitions = session.partitions
        return (
            session.epoch == epoch
            and len(partitions) == 1
            and (known.key in partitions if known.is_named else partitions.get(known.key) is known.wanted)
            and self._node.fetch_sessions.find(session.session_id) is session
        )

    def _read(self, known: UsualRequest, offset: int) -> tuple[int, bytes] | None:
        """High watermark and records; None if the handler has to look at it. Raises as reading does."""
        partition = known.partition
        producers = partition.producers
        if partition.opened_log is None or producers is None:
            return None
        if producers.transactions or (known.reads_committed and producers.transactions.has_aborted):
            return None
        high_watermark = partition.high_watermark
        if offset == high_watermark:
            return high_watermark, b""
        max_bytes = min(known.wanted.partition_max_bytes, known.max_bytes, self._cluster.config.fetch_max_bytes)
        data = partition.read(offset, high_watermark, max_bytes, at_least_one_batch=True)
        return (high_watermark, data) if data else None

    def _reply(self, known: UsualRequest, frame: bytes, connection: Connection, found: tuple[int, bytes]) -> None:
        high_watermark, data = found
        log_start_offset, session = known.partition.log.start_offset, known.session
        if session is not None:
            if not data and not session.is_news(known.key, high_watermark, log_start_offset):
                connection.reply(build_answer(frame, known.nothing, flexible=True))
                return
            session.note(known.key, high_watermark, log_start_offset)
        before, before_records, behind = known.answer
        numbers = _numbers.pack(high_watermark, high_watermark, log_start_offset)
        before += numbers + before_records + uvarint(len(data) + 1)
        pieces = build_answer_around(frame, before, data, behind)
        connection.reply(pieces[0], pieces[1:])

    def _answer(self, known: UsualRequest, frame: bytes, connection: Connection, offset: int) -> None:
        """Answer a request that has waited."""
        found = None
        if (
            known.partition.leader.leader_id == self._node.node_id
            and known.topics_version == self._cluster.topics.version
            and (known.session is None or known.session.session_id)
        ):
            try:
                found = self._read(known, offset)
            except Exception:  # as above
                found = None
        if found is not None:
            self._reply(known, frame, connection, found)
            return
        route, node = self._route, self._node
        header = parse_request_header(frame, flexible=True)
        request: Any = route.request_codec.parse(frame, header.body_at)[0]
        name, topic_id = _name_and_id(known.topic, route.version)
        wanted = _wanted(frame, known.offset_at - _OFFSET_BEHIND) if known.is_named else known.wanted
        reading = Reading(node, request, route.version, connection.listener_name, known.session)
        reading.take(FetchTopic(topic=name, topic_id=topic_id, partitions=(wanted,)), known.topic)
        max_bytes = min(known.max_bytes, self._cluster.config.fetch_max_bytes)
        answer_waiting(reading, max_bytes, PendingReply(connection, header, route, request))

    def _looked_up(self, frame: bytes) -> UsualRequest | None:
        """What a request asks for; None if it is not usual. May raise IndexError, struct.error then, too."""
        version = self._route.version
        at = _CLIENT_ID_AT + 2 + (frame[_CLIENT_ID_AT] << 8 | frame[_CLIENT_ID_AT + 1])
        if len(frame) > _MOST_BYTES or frame[at]:  # a client id that is null, or tags
            return None
        at += 1
        if version < _REPLICA_STATE_FROM:
            if frame[at] < 128:  # not negative
                return None
            at += 4
        max_wait_ms, min_bytes, max_bytes, isolation_level = _limits.unpack_from(frame, at)
        at += _limits.size
        session_id, epoch = _session.unpack_from(frame, at)
        if min_bytes > 1 or max_bytes < 1 or isolation_level not in (0, 1):
            return None
        session = self._node.fetch_sessions.find(session_id) if session_id else None
        if session is None:
            if session_id or epoch != _NO_SESSION_EPOCH:
                return None
        elif session.by_id != (version >= _TOPIC_IDS_FROM):
            return None
        epoch_at = at + _epoch.size
        at += _session.size
        is_named = frame[at] == _ONE
        if is_named:
            offset_at, topic = self._named(frame, at + 1)
            wanted = _wanted(frame, offset_at - _OFFSET_BEHIND)
        else:
            if session is None or len(session.partitions) != 1 or frame[at:] != b"\1" + _NOTHING_ELSE:
                return None
            offset_at = len(frame)
            (((name, _), wanted),) = session.partitions.items()
            topics = self._cluster.topics
            topic = topics.with_id(name) if isinstance(name, bytes) else topics.named(name)
        if topic is None or not 0 <= wanted.partition < len(topic.partitions):
            return None
        if wanted.partition_max_bytes < 0 or wanted.last_fetched_epoch >= 0:
            return None
        name, topic_id = _name_and_id(topic, version)
        if session is not None and session.by_id:
            session.names[topic_id] = topic.name
        return UsualRequest(
            self,
            self._cluster.topics.version,
            frame[_CLIENT_ID_AT:epoch_at],
            epoch_at,
            frame[epoch_at + _epoch.size : offset_at],
            offset_at,
            frame[offset_at + _offset.size :],
            max_bytes,
            max_wait_ms if max_wait_ms > 0 and min_bytes == 1 else 0,
            isolation_level == _READ_COMMITTED,
            topic,
            topic.partitions[wanted.partition],
            wanted,
            is_named,
            session,
            (topic_id if version >= _TOPIC_IDS_FROM else name, wanted.partition),
            self._answer_around(name, topic_id, wanted.partition, session_id, isolation_level),
            self._route.response_codec.build(FetchResponse(session_id=session_id, responses=())),
        )

    def _answer_around(
        self, name: str, topic_id: bytes, index: int, session_id: int, isolation_level: int
    ) -> tuple[bytes, bytes, bytes]:
        """What stands in an answer before its numbers, before the size of its records, and behind these."""
        high_watermark, last_stable_offset, log_start_offset = _numbers.unpack(_UNLIKELY)
        data = PartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=() if isolation_level == _READ_COMMITTED else None,
            records=b"",
        )
        topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=(data,))
        body = self._route.response_codec.build(FetchResponse(session_id=session_id, responses=(topic,)))
        before, _, rest = body.partition(_UNLIKELY)
        return before, rest.removesuffix(_NO_RECORDS + _BEHIND_RECORDS), _BEHIND_RECORDS

    def _named(self, frame: bytes, topic_at: int) -> tuple[int, Topic | None]:
        """Where the offset stands in a request of one topic and partition, and that topic. Raises IndexError for others."""
        topics = self._cluster.topics
        if self._route.version >= _TOPIC_IDS_FROM:
            at = topic_at + len(ZERO_UUID)
            topic = topics.with_id(frame[topic_at:at])
        else:
            if frame[topic_at] > 127:
                raise IndexError
            at = topic_at + frame[topic_at]  # its length, and one
            topic = topics.named(frame[topic_at + 1 : at].decode(errors="replace"))
        at += 1
        if frame[at - 1] != _ONE or frame[at + _partition.size :] != _BEHIND_PARTITION:
            raise IndexError
        return at + _OFFSET_BEHIND, topic


def _wanted(frame: bytes, at: int) -> FetchPartition:
    index, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes = _partition.unpack_from(
        frame, at
    )
    return FetchPartition(
        partition=index,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=max_bytes,
    )


def _name_and_id(topic: Topic, version: int) -> tuple[str, bytes]:
    """As requests and answers of a version have them."""
    return ("", topic.topic_id) if version >= _TOPIC_IDS_FROM else (topic.name, ZERO_UUID)
