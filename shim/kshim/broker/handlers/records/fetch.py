"""Fetch: record batches from an offset on, at once or when enough of them are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kshim.broker.fetch_sessions import FetchSession
from kshim.broker.leader_checks import check_leader, endpoints
from kshim.broker.node import Node
from kshim.broker.request import PendingReply, answered, handles
from kshim.coordinator.step import RequestContext, Step
from kshim.partitions.fetch_purgatory import WaitingFetch
from kshim.partitions.partition import Partition, Topic
from kshim.storage.log import LogError, OffsetOutOfRange
from kshim_protocol.errors import ErrorCode, KafkaError
from kshim_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kshim_protocol.records.scan import last_offset_of_run

_TOPIC_IDS_FROM = 13
_REPLICA_STATE_FROM = 15
_READ_UNCOMMITTED = 0
_READ_COMMITTED = 1
_NO_SESSION_EPOCH = -1
_FULL_FETCH_EPOCHS = (0, _NO_SESSION_EPOCH)
_NOT_DIVERGING = EpochEndOffset()
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_LEADERS_NAMED_FROM = 16
_LEADERS_NAMED_WITH = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@handles(FetchRequest)
def fetch(node: Node, request: FetchRequest, context: RequestContext, ticket: PendingReply) -> Step:
    """Answer with the records that are there, or park until `min_bytes` of them are or `max_wait_ms` have passed.

    An error of a partition that exists (offset out of range, wrong epoch) is answered at once; an unknown partition
    does not end the wait for the others (checked live on 4.4). A parked Fetch is read again when it is woken. Where it
    is up to the broker, a full request begins a session (KIP-227), see docs/design/data-plane.md.
    Raises KafkaError UNKNOWN_SERVER_ERROR for an isolation level that does not exist.
    """
    node.cluster.client_activity.fetched(ticket.connection.client, context.client_id, context.client_host, context.now)
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    try:
        session = _session(node, request, context)
    except KafkaError as error:
        return answered(ticket, FetchResponse(error_code=error.code, responses=()))
    ticket.connection.client.has_fetch_session = _has_session(request, session)
    reading = Reading(node, request, context.api_version, ticket.connection.listener_name, session)
    reading.look_up()
    max_bytes = min(request.max_bytes, node.cluster.config.fetch_max_bytes)
    missing_bytes = min(request.min_bytes, max_bytes) - reading.available_bytes
    if request.max_wait_ms <= 0 or missing_bytes <= 0 or reading.is_urgent or not reading.idle_or_readable:
        return answered(ticket, reading.response(max_bytes))
    node.cluster.fetch_purgatory.add(
        WaitingFetch(
            ticket.connection,
            reading.idle_or_readable,
            missing_bytes,
            context.real_ms + request.max_wait_ms,
            partial(answer_waiting, reading, max_bytes, ticket),
            reads_committed=request.isolation_level == _READ_COMMITTED,
        )
    )
    return Step()


def answer_waiting(reading: Reading, max_bytes: int, ticket: PendingReply) -> None:
    """Answer a Fetch that has waited."""
    try:
        ticket.complete(reading.looked_up_again().response(max_bytes))
    except Exception as error:  # must not become the error of the producer whose records woke this Fetch
        reading.cluster.report(error, ticket.request)
        ticket.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


def _session(node: Node, request: FetchRequest, context: RequestContext) -> FetchSession | None:
    """The session that a request begins or goes on with; None for a full one without.

    With an authorizer there are none, because it decides by what a request names. Raises KafkaError.
    """
    sessions = node.fetch_sessions
    by_id = context.api_version >= _TOPIC_IDS_FROM
    if request.session_epoch not in _FULL_FETCH_EPOCHS:
        return sessions.resume(request, by_id=by_id, now_ms=context.real_ms)
    if request.session_id:
        sessions.end(request.session_id)
    if request.session_epoch == _NO_SESSION_EPOCH or node.cluster.authorizer is not None:
        return None
    return sessions.begin(request, by_id=by_id, now_ms=context.real_ms)


def _has_session(request: FetchRequest, session: FetchSession | None) -> bool | None:
    """See `ConnectedClient.has_fetch_session`.

    Who only goes on without a session names partitions, and a session whose last partition a request has dropped ends by itself.
    """
    if session is not None and session.session_id:
        return True
    is_end = request.session_id and request.session_epoch == _NO_SESSION_EPOCH and not request.topics
    return False if is_end else None


class _Place(NamedTuple):
    """One partition of a request: what is wanted and what was found. `error` or `partition`, not both."""

    wanted: FetchPartition
    partition: Partition | None
    error: ErrorCode = ErrorCode.NONE
    diverging: EpochEndOffset | None = None


class Reading:
    """A request, to be looked up against what is there now. No records are read before `response`.

    What does not exist is answered after everything else, as Kafka does; not so what has gone since the request was
    first looked up.
    `available_bytes` is what counts against min_bytes; `is_urgent` that a partition must be answered at once;
    `idle_or_readable` the partitions that more records may still come to.
    """

    def __init__(
        self,
        node: Node,
        request: FetchRequest,
        api_version: int,
        listener_name: str,
        session: FetchSession | None,
    ) -> None:
        self._node = node
        self.cluster = node.cluster
        self._listener_name = listener_name
        self._session = session
        self._request = request
        self._api_version = api_version
        self._by_id = api_version >= _TOPIC_IDS_FROM
        replica_id = request.replica_state.replica_id if api_version >= _REPLICA_STATE_FROM else request.replica_id
        self._is_follower = replica_id >= 0
        self._reads_committed = request.isolation_level == _READ_COMMITTED
        self._is_second_look = False
        self._names: dict[bytes, str] = session.names if session is not None else {}
        self.available_bytes = 0
        self.is_urgent = False
        self.idle_or_readable: list[Partition] = []
        self._topics: list[tuple[FetchTopic, Topic | None, list[_Place]]] = []

    def look_up(self) -> None:
        """Find what is asked for."""
        unknown: list[tuple[FetchTopic, Topic | None, list[_Place]]] = []
        for wanted in self._request.topics if self._session is None else self._session.topics():
            topic = self._found(wanted)
            if topic is not None:
                self._names[topic.topic_id] = topic.name
            places = list(self._places(wanted, topic, wanted.partitions))
            known = [place for place in places if place.error not in _UNKNOWN]
            if known:
                self._topics.append((wanted, topic, known))
            if len(known) < len(places):
                unknown.append((wanted, topic, [place for place in places if place.error in _UNKNOWN]))
        self._topics += unknown

    def take(self, wanted: FetchTopic, topic: Topic) -> None:
        """The same for a single partition that was found before, and could be read."""
        (place,) = wanted.partitions
        self._names[topic.topic_id] = topic.name
        self._topics.append((wanted, topic, [_Place(place, topic.partitions[place.partition])]))

    def looked_up_again(self) -> Reading:
        """The same request after a while. Looking up costs as much as answering, so only if topics came or went."""
        if all(self._found(wanted) is topic for wanted, topic, _ in self._topics):
            return self
        again = Reading(self._node, self._request, self._api_version, self._listener_name, self._session)
        again._names = self._names
        again._is_second_look = True
        for wanted, _, places in self._topics:
            topic = self._found(wanted)
            again._topics.append((wanted, topic, list(again._places(wanted, topic, [each.wanted for each in places]))))
        return again

    def _found(self, topic: FetchTopic) -> Topic | None:
        topics = self.cluster.topics
        return topics.with_id(topic.topic_id) if self._by_id else topics.named(topic.topic)

    def _error_of_unknown(self, topic: FetchTopic) -> ErrorCode:
        """Kafka keeps the name that an id had when it was first asked for, for as long as the session lasts."""
        if not self._by_id:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = self._names.get(topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._is_second_look or name not in self.cluster.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.is_urgent = True
        return ErrorCode.INCONSISTENT_TOPIC_ID

    def _places(
        self, wanted: FetchTopic, topic: Topic | None, partitions: Iterable[FetchPartition]
    ) -> Iterator[_Place]:
        error = ErrorCode.NONE if topic is not None else self._error_of_unknown(wanted)
        for place in partitions:
            if topic is None:
                yield _Place(place, None, error)
            elif not 0 <= place.partition < len(topic.partitions):
                yield _Place(place, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                yield self._place(topic.partitions[place.partition], place)

    def _place(self, partition: Partition, wanted: FetchPartition) -> _Place:
        diverging = None
        try:
            self._check(partition, wanted)
            if wanted.last_fetched_epoch >= 0:
                diverging = _divergence(partition, wanted)
            end_offset = self._end_offset(partition)
            if diverging is None and wanted.fetch_offset != end_offset:
                available_bytes = partition.readable_bytes(wanted.fetch_offset, end_offset)
                # However small the limit, the first batch may be sent whole.
                self.available_bytes += min(available_bytes, max(wanted.partition_max_bytes, 1))
        except OffsetOutOfRange:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        except KafkaError as refused:
            error = refused.code
        except LogError as failure:
            self.cluster.report(failure, self._request)
            error = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            self.idle_or_readable.append(partition)
            if diverging is None:
                return _Place(wanted, partition)
            self.is_urgent = True
            return _Place(wanted, partition, diverging=diverging)
        self.is_urgent = True
        return _Place(wanted, None, error)

    def _end_offset(self, partition: Partition) -> int:
        """Up to where this request may read. Raises LogError, KafkaError."""
        return partition.last_stable_offset if self._reads_committed else partition.high_watermark

    def _check(self, partition: Partition, wanted: FetchPartition) -> None:
        """Raises KafkaError."""
        if self._is_follower:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # there are no other replicas to follow with
        check_leader(self._node, partition, max(wanted.current_leader_epoch, -1))  # negative: not given
        if wanted.partition_max_bytes < 0 or self._request.max_bytes < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def response(self, max_bytes: int) -> FetchResponse:
        """Read. The first batch found is whole however large, everything else keeps to the limits."""
        session = self._session
        left_bytes = max_bytes
        is_first = True
        responses = []
        found_topics = []
        for topic, found, places in self._topics:
            answers = []
            for place in places:
                if session is not None and self._has_no_news(topic, place, session):
                    continue
                answer, size_bytes = self._answer(place, left_bytes, is_first=is_first)
                if size_bytes:
                    is_first = False
                    left_bytes = max(left_bytes - size_bytes, 0)
                if session is None or size_bytes or not self._is_old(topic, answer, session):
                    answers.append(answer)
            if answers or session is None:
                responses.append(
                    FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(answers))
                )
                found_topics.append(found)
        if session is not None:
            session.answered(responses)
        return FetchResponse(
            session_id=0 if session is None else session.session_id,
            responses=tuple(responses),
            node_endpoints=self._name_leaders(responses, found_topics),
        )

    def _has_no_news(self, topic: FetchTopic, place: _Place, session: FetchSession) -> bool:
        """Whether there is nothing to say of a partition: the usual case of a session, found out at little cost."""
        wanted, partition = place.wanted, place.partition
        if partition is None or place.diverging is not None or partition.leader.leader_id != self._node.node_id:
            return False
        log = partition.opened_log
        if log is None:
            return False
        high_watermark = partition.high_watermark
        return wanted.fetch_offset == high_watermark and not session.is_news(
            (topic.topic_id if session.by_id else topic.topic, wanted.partition), high_watermark, log.start_offset
        )

    def _is_old(self, topic: FetchTopic, data: PartitionData, session: FetchSession) -> bool:
        """Whether an answer without records says what was said before."""
        return (
            data.error_code == ErrorCode.NONE
            and data.diverging_epoch == _NOT_DIVERGING
            and not session.is_news(
                (topic.topic_id if session.by_id else topic.topic, data.partition_index),
                data.high_watermark,
                data.log_start_offset,
            )
        )

    def _name_leaders(
        self, responses: list[FetchableTopicResponse], topics: list[Topic | None]
    ) -> tuple[NodeEndpoint, ...]:
        """Add the current leader and its address to each refusal."""
        if self._api_version < _LEADERS_NAMED_FROM or not self.cluster.leadership.is_spread:
            return ()
        leader_ids = []
        for response, topic in zip(responses, topics, strict=True):
            for data in response.partitions:
                if topic is not None and data.error_code in _LEADERS_NAMED_WITH:
                    leader = topic.partitions[data.partition_index].leader
                    data.current_leader = LeaderIdAndEpoch(  # type: ignore[misc]
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
                    leader_ids.append(leader.leader_id)
        return endpoints(self._node, self._listener_name, leader_ids, NodeEndpoint)

    def _answer(self, place: _Place, left_bytes: int, *, is_first: bool) -> tuple[PartitionData, int]:
        wanted, partition = place.wanted, place.partition
        if partition is None:
            return _error_data(wanted, place.error), 0
        if partition.leader.leader_id != self._node.node_id:  # since the Fetch began to wait
            return _error_data(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER), 0
        aborted: tuple[AbortedTransaction, ...] | None = () if self._reads_committed else None
        data = b""
        try:
            high_watermark = partition.high_watermark
            # Others need not wait until it is known.
            is_known = self._reads_committed or partition.producers is not None
            stable_offset = partition.last_stable_offset if is_known else high_watermark
            end_offset = stable_offset if self._reads_committed else high_watermark
            if wanted.fetch_offset != high_watermark and place.diverging is None and (is_first or left_bytes):
                data = partition.read(
                    wanted.fetch_offset,
                    end_offset,
                    min(wanted.partition_max_bytes, left_bytes),
                    at_least_one_batch=is_first,
                )
            if aborted is not None and data:
                aborted = _aborted_in(partition, wanted.fetch_offset, data)
            answer = PartitionData(
                partition_index=wanted.partition,
                error_code=ErrorCode.NONE,
                high_watermark=high_watermark,
                last_stable_offset=stable_offset,
                log_start_offset=partition.log.start_offset,
                aborted_transactions=aborted,
                records=data,
            )
        except OffsetOutOfRange:  # what was there when the Fetch began to wait has been deleted since
            return _error_data(wanted, ErrorCode.OFFSET_OUT_OF_RANGE), 0
        except KafkaError as refused:
            return _error_data(wanted, refused.code), 0
        except LogError as failure:
            self.cluster.report(failure, self._request)
            return _error_data(wanted, ErrorCode.KAFKA_STORAGE_ERROR), 0
        if place.diverging is not None:
            answer.diverging_epoch = place.diverging  # type: ignore[misc]
        return answer, len(data)


def _aborted_in(partition: Partition, offset: int, data: bytes) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that batches read from `offset` on have a part in."""
    producers = partition.producers
    if producers is None or not producers.transactions.has_aborted:
        return ()
    return tuple(
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in producers.transactions.aborted_between(offset, last_offset_of_run(data) + 1)
    )


def _divergence(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the log of a reader that names the epoch it read last departs from this one (KIP-595).

    Raises OffsetOutOfRange for an epoch there never was, LogError.
    """
    epoch, end_offset = partition.end_of_epoch(wanted.last_fetched_epoch)
    if end_offset < 0:
        raise OffsetOutOfRange(f"no epoch {wanted.last_fetched_epoch}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def _error_data(wanted: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
