"""The Produce that most requests are, from its bytes to those of the answer: one batch, not compressed, for one partition.

It is checked, appended and answered with the same functions as by `produce`, but nothing is taken apart that is the same
from request to request: what stands before the batch is looked up whole, and the answer is the last one with other
numbers. Whatever is not as usual, or would be refused, is left to `produce` before anything is done.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kshim.broker.request import PendingReply
from kshim.partitions.record_validator import AT_ONCE_RECORDS, CheckedRecords
from kshim.storage.log import LogError
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.frame import ProtocolError, build_answer, parse_request_header
from kshim_protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kshim_protocol.records.layout import COMPRESSION_BITS, HEADER_BYTES, TRANSACTIONAL_BIT
from kshim_protocol.records.validation import RecordFacts, check_records
from kshim_protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kshim.broker.connection import Connection
    from kshim.broker.node import Node
    from kshim.broker.request import Route
    from kshim.coordinator.step import Now
    from kshim.partitions.partition import Partition, Topic


_TOPIC_IDS_FROM: Final = 13
_CLIENT_ID_AT: Final = 8  # behind api key, version and correlation id
_MOST_CLIENT_ID_BYTES: Final = 0x7FFF
_TOPIC_BEHIND: Final = 9
"""So many bytes behind the client id stands the first topic: tags, transactional id, acks, timeout and how many there are."""
_ONE: Final = 2  # how a compact array says that it has one element
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the request, at the end of it
_ALLOWED_ACKS: Final = (b"\xff\xff", b"\0\1")  # with 0 there is no answer
_MOST_PLACES: Final = 1024
_numbers = struct.Struct(">qqq")
_UNLIKELY: Final = _numbers.pack(*[0x01_02_03_04_05_06_07_08] * 3)


def _behind_client_id(frame: bytes) -> int:
    return _CLIENT_ID_AT + 2 + (frame[_CLIENT_ID_AT] << 8 | frame[_CLIENT_ID_AT + 1])


class _Place(NamedTuple):
    """What the bytes before a batch say, and the bytes of the answer before and behind its numbers."""

    topic: Topic
    partition: Partition
    before: bytes
    behind: bytes


class UsualProduce:
    """Those of one version, to one node."""

    def __init__(self, node: Node, route: Route) -> None:
        self._node = node
        self._cluster = node.cluster
        self._route = route
        self._places: dict[bytes, _Place] = {}
        self._topics_version = -1

    def handle(self, frame: bytes, connection: Connection, now: Now, real_ms: int) -> bool:
        """Handle a request of a client that may ask; False, and nothing is done, if that is for the handler to do."""
        cluster = self._cluster
        if (
            cluster.durability.replies_wait or cluster.partitions.before_append is not None
        ):  # or a fault may have it wait
            return False
        try:
            index_at = self._index_at(frame)
            size, batch_at = frame[index_at + 4], index_at + 5
            if size > 127:
                size, batch_at = size & 127 | frame[batch_at] << 7, batch_at + 1
                if size >> 14:
                    size, batch_at = size & 0x3FFF | frame[batch_at] << 14, batch_at + 1
        except IndexError:
            return False
        end = batch_at + size - 1
        if not 0 < size < 1 << 21 or frame[end:] != _NO_TAGS:
            return False
        place = self._place(frame, index_at)
        if place is None:
            return False
        topic, partition, before, behind = place
        try:
            admitted = self._admitted(topic, partition, frame[batch_at:end], now.wall_ms)
        except (KafkaError, LogError, ProtocolError):
            admitted = None
        if admitted is None:
            return False
        batch, log_append_time_ms = admitted
        client, purgatory = connection.client, cluster.fetch_purgatory
        client.last_now, client.last_api = now, self._route.api
        purgatory.hold()
        try:
            base_offset = partition.append(batch, now.wall_ms)
            numbers = _numbers.pack(base_offset, log_append_time_ms, partition.log.start_offset)
        except Exception as error:
            self._refuse(frame, connection, error)
        else:
            connection.reply(build_answer(frame, before + numbers + behind, flexible=True))
        finally:
            purgatory.let_go()
        return True

    def _refuse(self, frame: bytes, connection: Connection, error: Exception) -> None:
        """Answer what could not be appended as the handler does."""
        route = self._route
        header = parse_request_header(frame, flexible=True)
        request, _ = route.request_codec.parse(frame, header.body_at)
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if isinstance(error, LogError):
            self._cluster.report(error, request)
            code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        else:
            self._cluster.defect(error, request)
        reply = PendingReply(connection, header, route, request)
        reply.complete(request.error_response(code, route.version, message))

    def _index_at(self, frame: bytes) -> int:
        """Where the index of the partition stands in a request of one batch. Raises IndexError for other requests."""
        length = frame[_CLIENT_ID_AT] << 8 | frame[_CLIENT_ID_AT + 1]
        at = _CLIENT_ID_AT + 2 + length
        topic_at = at + _TOPIC_BEHIND
        if length > _MOST_CLIENT_ID_BYTES or frame[at] or frame[at + 1] or frame[topic_at - 1] != _ONE:
            raise IndexError  # the client id is null, there are tags, or a transactional id
        if self._route.version >= _TOPIC_IDS_FROM:
            at = topic_at + len(ZERO_UUID)
        elif frame[topic_at] > 127:
            raise IndexError
        else:
            at = topic_at + frame[topic_at]  # its length, and one
        if frame[at] != _ONE:
            raise IndexError
        return at + 1

    def _place(self, frame: bytes, index_at: int) -> _Place | None:
        """What a request says before its batch; None: not what can be kept."""
        if self._topics_version != self._cluster.topics.version:
            self._topics_version = self._cluster.topics.version
            self._places.clear()
        key = frame[_CLIENT_ID_AT : index_at + 4]
        place = self._places.get(key)
        if place is None:
            place = self._new_place(frame, index_at)
            if place is not None:
                if len(self._places) >= _MOST_PLACES:
                    self._places.clear()
                self._places[key] = place
        return place

    def _new_place(self, frame: bytes, index_at: int) -> _Place | None:
        by_id = self._route.version >= _TOPIC_IDS_FROM
        at = _behind_client_id(frame)
        topic_at = at + _TOPIC_BEHIND
        if by_id:
            topic = self._cluster.topics.with_id(frame[topic_at : index_at - 1])
        else:
            topic = self._cluster.topics.named(frame[topic_at + 1 : index_at - 1].decode(errors="replace"))
        index = int.from_bytes(frame[index_at : index_at + 4], "big", signed=True)
        if topic is None or topic.is_internal or frame[at + 2 : at + 4] not in _ALLOWED_ACKS:
            return None
        if not 0 <= index < len(topic.partitions):
            return None
        base_offset, log_append_time_ms, log_start_offset = _numbers.unpack(_UNLIKELY)
        answer = PartitionProduceResponse(
            index=index,
            error_code=ErrorCode.NONE,
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
        )
        name, topic_id = ("", topic.topic_id) if by_id else (topic.name, ZERO_UUID)
        response = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=(answer,))
        body = self._route.response_codec.build(ProduceResponse(responses=(response,)))
        before, _, behind = body.partition(_UNLIKELY)
        return _Place(topic, topic.partitions[index], before, behind)

    def _admitted(self, topic: Topic, partition: Partition, batch: bytes, now_ms: int) -> tuple[bytes, int] | None:
        """The batch as the log shall hold it, and its log append time; None: the handler has to look at it.

        Raises KafkaError, LogError, ProtocolError for what is to be refused.
        """
        validator = topic.batch_validator(self._cluster.config)
        if partition.leader.leader_id != self._node.node_id or len(batch) > validator.writable_max_bytes:
            return None
        header = validator.check(batch)
        if validator.codec or header.attributes & (COMPRESSION_BITS | TRANSACTIONAL_BIT):
            return None
        if header.record_count > AT_ONCE_RECORDS:
            return None
        facts = RecordFacts()
        if check_records(batch, HEADER_BYTES, header.record_count, facts, is_numbered=False) != len(batch):
            return None
        if header.producer_id >= 0 and partition.require_producers().check(header) is not None:
            return None
        return validator.admit(batch, header, CheckedRecords(facts, None), now_ms)
